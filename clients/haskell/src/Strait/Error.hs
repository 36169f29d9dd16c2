-- | The one exception of this library, which is also an 'IOError'.
module Strait.Error
  ( StraitError (..),
    ErrorKind (..),
    toIOError,
    fromIOError,
    straitError,
    kindOfCode,
  )
where

import Control.Exception (Exception (..))
import Data.Int (Int64)
import GHC.IO.Exception (IOException (..))
import qualified GHC.IO.Exception as IO
import Text.Read (readMaybe)

-- | What went wrong; the same kinds in every client language, in the order of their codes in @idl/dfs.thrift@.
data ErrorKind
  = NotFound
  | AlreadyExists
  | NotADirectory
  | IsADirectory
  | NotEmpty
  | PermissionDenied
  | Unauthenticated
  | InvalidArgument
  | Unsupported
  | Busy
  | NoSpace
  | TimedOut
  | Unavailable
  | Corrupt
  | -- | A change was sent, and nobody knows whether it was executed.
    OutcomeUnknown
  | Internal
  deriving (Eq, Ord, Show, Read, Enum, Bounded)

-- | An error of a gateway, of its store, or on the way there. It is thrown as the 'IOError' that the same failure has
-- with local files. So handlers of either type catch it, and predicates such as
-- 'System.IO.Error.isDoesNotExistError' hold.
data StraitError = StraitError
  { errorKind :: ErrorKind,
    -- | The remote path, if the error has one.
    errorPath :: Maybe FilePath,
    -- | For people: what happened, and what to do.
    errorMessage :: String,
    -- | Repeating the same request can help, and can do no harm.
    errorRetrySafe :: Bool
  }
  deriving (Eq, Show)

instance Exception StraitError where
  toException = toException . toIOError
  fromException failure = fromException failure >>= fromIOError
  displayException = displayException . toIOError

-- | Its location has the kind, by which 'fromIOError' recognizes it.
toIOError :: StraitError -> IOError
toIOError (StraitError kind path message retrySafe) =
  IOError
    { ioe_handle = Nothing,
      ioe_type = typeOf kind,
      ioe_location = unwords ("strait" : show kind : ["retry-safe" | retrySafe]),
      ioe_description = message,
      ioe_errno = Nothing,
      ioe_filename = path
    }

-- | Nothing for errors of others.
fromIOError :: IOError -> Maybe StraitError
fromIOError failure = case words (ioe_location failure) of
  ["strait", kind] -> view kind False
  ["strait", kind, "retry-safe"] -> view kind True
  _ -> Nothing
  where
    view kind retrySafe = do
      known <- readMaybe kind
      Just (StraitError known (ioe_filename failure) (ioe_description failure) retrySafe)

-- | As GHC sorts the error numbers of POSIX.
typeOf :: ErrorKind -> IO.IOErrorType
typeOf kind = case kind of
  NotFound -> IO.NoSuchThing
  AlreadyExists -> IO.AlreadyExists
  NotADirectory -> IO.InappropriateType
  IsADirectory -> IO.InappropriateType
  NotEmpty -> IO.UnsatisfiedConstraints
  PermissionDenied -> IO.PermissionDenied
  Unauthenticated -> IO.PermissionDenied
  InvalidArgument -> IO.InvalidArgument
  Unsupported -> IO.UnsupportedOperation
  Busy -> IO.ResourceBusy
  NoSpace -> IO.ResourceExhausted
  TimedOut -> IO.TimeExpired
  Unavailable -> IO.ResourceVanished
  Corrupt -> IO.HardwareFault
  OutcomeUnknown -> IO.OtherError
  Internal -> IO.SystemError

-- | An error whose repetition isn't known to be safe.
straitError :: ErrorKind -> Maybe FilePath -> String -> StraitError
straitError kind path message = StraitError kind path message False

-- | A newer gateway's code is 'Internal'.
kindOfCode :: Int64 -> ErrorKind
kindOfCode code
  | code >= 1 && code <= fromIntegral (fromEnum (maxBound :: ErrorKind)) + 1 = toEnum (fromIntegral code - 1)
  | otherwise = Internal
