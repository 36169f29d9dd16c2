-- | A socket to a gateway, for one caller at a time; and deadlines.
module Strait.Connection
  ( -- * Deadlines
    Deadline,
    deadlineIn,
    orIn,
    leftMs,

    -- * Connections
    Connection,
    open,
    close,
    isLocal,
    isStale,
    isBroken,

    -- * Requests
    Request (..),
    about,
    Lost (..),
    call,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (Exception, bracketOnError, throwIO, try)
import Control.Monad (void, when)
import Data.Bits (shiftL, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C
import Data.ByteString.Internal (create)
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import Data.Int (Int32, Int64)
import Data.Maybe (fromMaybe, listToMaybe)
import Data.Word (Word64, Word8)
import Foreign (Ptr, allocaBytes, plusPtr)
import Foreign.C (CInt (..), CSize (..), eAGAIN, eINTR, eWOULDBLOCK, getErrno)
import GHC.Clock (getMonotonicTimeNSec)
import GHC.IO.Exception (IOException (..))
import qualified Network.Socket as N
import qualified Network.Socket.ByteString.Lazy as NL
import Strait.Error
import Strait.Wire
import System.Posix.Types (CSsize (..))
import System.Timeout (timeout)

-- | When a request is given up, with all that belongs to it: nanoseconds of the monotonic clock.
newtype Deadline = Deadline Word64 deriving (Eq, Ord)

-- | In this many milliseconds.
deadlineIn :: Int -> IO Deadline
deadlineIn ms = Deadline . (+ fromIntegral (max 0 ms) * 1000000) <$> getMonotonicTimeNSec

-- | The earlier one.
orIn :: Deadline -> Int -> IO Deadline
orIn deadline ms = min deadline <$> deadlineIn ms

leftMs :: Deadline -> IO Int
leftMs (Deadline end) = do
  now <- getMonotonicTimeNSec
  pure (if now >= end then 0 else fromIntegral ((end - now) `div` 1000000))

-- | Nothing if the time ended first.
within :: Deadline -> IO a -> IO (Maybe a)
within deadline action = do
  left <- leftMs deadline
  timeout (left * 1000) action

-- | A connection is broken from the beginning of a request until its whole reply is here.
data Connection = Connection
  { socket :: N.Socket,
    address :: String,
    -- | The peer is on this machine.
    isLocal :: Bool,
    sequenceNumber :: IORef Int32,
    broken :: IORef Bool
  }

-- | A method of DfsV2, and the fields of its request. Errors name the first of its paths.
data Request = Request
  { method :: ByteString,
    paths :: [FilePath],
    fields :: Fields
  }

-- | The path that errors name.
about :: Request -> Maybe FilePath
about = listToMaybe . paths

-- | The connection broke.
data Lost = Lost
  { why :: String,
    -- | The request may have arrived.
    wasSent :: Bool
  }
  deriving (Show)

instance Exception Lost

-- | Connects to a host and port; the text names them in errors. If the host has several addresses, each gets a share of
-- the time.
open :: String -> Int -> String -> Deadline -> IO Connection
open host port name deadline = do
  found <- try (within deadline (resolve host port))
  case found of
    Left failure -> unreachable (ioe_description failure)
    Right addresses -> attempt noAddress (fromMaybe [] addresses)
  where
    noAddress = "the host name " <> host <> " has no address; check the name, or the resolver"
    unreachable problem = throwIO (Lost ("no gateway at " <> name <> ": " <> problem) False)
    attempt problem [] = unreachable problem
    attempt _ (first : others) = do
      left <- leftMs deadline
      share <- deadlineIn (left `div` (1 + length others))
      connected <- try (within share (connectTo first))
      case connected of
        Right (Just (made, peer)) -> Connection made name (isLoopback peer) <$> newIORef 0 <*> newIORef False
        Right Nothing -> attempt "it doesn't accept the connection" others
        Left failure -> attempt (ioe_description failure) others
    connectTo info = bracketOnError (N.openSocket info) N.close $ \made -> do
      N.connect made (N.addrAddress info)
      N.setSocketOption made N.NoDelay 1
      (,) made <$> N.getPeerName made

-- | In a thread of its own, since nothing can interrupt the C library's function.
resolve :: String -> Int -> IO [N.AddrInfo]
resolve host port = do
  result <- newEmptyMVar
  void (forkIO (try (N.getAddrInfo (Just hints) (Just host) (Just (show port))) >>= putMVar result))
  takeMVar result >>= either (throwIO :: IOException -> IO a) pure
  where
    hints = N.defaultHints {N.addrSocketType = N.Stream}

close :: Connection -> IO ()
close = N.close . socket

isLoopback :: N.SockAddr -> Bool
isLoopback peer = case peer of
  N.SockAddrInet _ host -> case N.hostAddressToTuple host of (first, _, _, _) -> first == 127
  N.SockAddrInet6 _ _ host _ -> case N.hostAddress6ToTuple host of
    (0, 0, 0, 0, 0, 0, 0, 1) -> True
    (0, 0, 0, 0, 0, 0xffff, high, _) -> high `div` 256 == 127
    _ -> False
  _ -> False

isBroken :: Connection -> IO Bool
isBroken = readIORef . broken

foreign import ccall unsafe "recv"
  peek :: CInt -> Ptr Word8 -> CSize -> CInt -> IO CSsize

-- | Whether the gateway has closed an idle connection, or sent what nobody asked for. The socket doesn't block.
isStale :: Connection -> IO Bool
isStale connection = N.withFdSocket (socket connection) $ \descriptor ->
  allocaBytes 1 $ \buffer -> do
    count <- peek descriptor buffer 1 msgPeek
    problem <- getErrno
    pure (count >= 0 || problem `notElem` [eAGAIN, eWOULDBLOCK, eINTR])
  where
    msgPeek = 2 -- MSG_PEEK, the same on Linux, macOS and the BSDs

-- | One request and its reply. Throws 'Lost', or a 'StraitError' of the gateway's, or one that is 'TimedOut'.
call :: Connection -> Request -> Deadline -> IO Fields
call connection request deadline = do
  writeIORef (broken connection) True
  number <- (+ 1) <$> readIORef (sequenceNumber connection)
  writeIORef (sequenceNumber connection) number
  left <- leftMs deadline
  let limit = (deadlineField, I32 (fromIntegral (max 1 (min left (fromIntegral (maxBound :: Int32))))))
      frame = encodeCall (method request) number [(1, Struct (fields request <> [limit]))]
  answer <- try . within deadline $ do
    NL.sendAll (socket connection) frame
    decodeReply (method request) number <$> receiveFrame (socket connection)
  case answer of
    Left failure -> lost (ioe_description failure)
    Right Nothing -> throwIO (StraitError TimedOut (about request) silence True)
    Right (Just (Left (Malformed problem))) -> lost problem
    Right (Just (Left (Rejected problem))) -> do
      writeIORef (broken connection) False
      throwIO (straitError Internal (about request) ("the gateway refuses " <> name <> ": " <> problem))
    Right (Just (Right reply)) -> do
      writeIORef (broken connection) False
      case (struct 0 reply, lookup 1 reply) of
        (_, Just (Struct problem)) -> throwIO (errorOf request problem)
        (Just result, Nothing) -> pure result
        _ -> throwIO (straitError Internal (about request) (name <> noResult))
  where
    noResult = ": the gateway's reply has neither a result nor an error (a defect of the gateway)"
    deadlineField = 15 -- deadline_ms, in each request
    name = C.unpack (method request)
    silence = name <> ": the gateway " <> address connection <> " gave no answer in time"
    lost problem = throwIO (Lost ("the connection to " <> address connection <> " broke: " <> problem) True)

-- | An error of the gateway's. Where it knows only a handle, the path is the request's.
errorOf :: Request -> Fields -> StraitError
errorOf request reply =
  StraitError
    { errorKind = kindOfCode (fromMaybe 0 (integer 1 reply)),
      errorPath = string 4 reply <|> about request,
      errorMessage = fromMaybe "" (string 3 reply),
      errorRetrySafe = integer 5 reply == Just 1
    }

receiveFrame :: N.Socket -> IO ByteString
receiveFrame from = do
  head4 <- receive from 4
  let size = B.foldl' (\value byte -> value `shiftL` 8 .|. fromIntegral byte) 0 head4 :: Int64
  when (size > maxFrame) $ ioError (userError ("a reply of " <> show size <> " bytes"))
  receive from (fromIntegral size)

-- | This many bytes, in blocks, so that memory is taken only a block ahead of the bytes that arrive.
receive :: N.Socket -> Int -> IO ByteString
receive from size = B.concat <$> blocks size
  where
    blockBytes = 2 `shiftL` 20 -- a readRange's reply fits in one, and isn't copied
    blocks 0 = pure []
    blocks left = (:) <$> block (min left blockBytes) <*> blocks (left - min left blockBytes)
    block count = create count (fill count)
    fill 0 _ = pure ()
    fill left buffer = do
      count <- N.recvBuf from buffer left
      when (count <= 0) $ ioError (userError "it ended")
      fill (left - count) (buffer `plusPtr` count)
