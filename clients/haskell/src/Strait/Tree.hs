{-# LANGUAGE OverloadedStrings #-}

-- | Names and attributes of a store's files and directories, and the store itself.
module Strait.Tree
  ( -- * Files and directories
    Info (..),
    infoName,
    getInfo,
    lookupInfo,
    doesPathExist,
    listDirectory,
    foldDirectory,

    -- * Changes
    createDirectories,
    Existing (..),
    renamePath,
    removePath,
    removeTree,
    Attributes (..),
    keepAttributes,
    setAttributes,
    truncateFile,
    concatFiles,

    -- * Where bytes lie
    Block (..),
    locate,
    Checksum (..),
    checksum,
    Status (..),
    status,
  )
where

import Control.Exception (handleJust, onException, throwIO)
import Control.Monad (foldM, guard, unless, void)
import Data.ByteString (ByteString)
import Data.Int (Int16, Int32, Int64)
import Data.Maybe (fromMaybe, listToMaybe)
import Data.Time.Clock (UTCTime)
import Data.Time.Clock.POSIX (posixSecondsToUTCTime, utcTimeToPOSIXSeconds)
import Strait.Connection (Request (..))
import Strait.Error
import Strait.Session
import Strait.Wire

-- | A file or directory.
data Info = Info
  { infoPath :: FilePath,
    infoIsDirectory :: Bool,
    -- | The path's last name is a symbolic link; all else is of what it leads to. Only listings tell this.
    infoIsLink :: Bool,
    -- | Bytes.
    infoLength :: Int64,
    infoBlockSize :: Int64,
    infoReplication :: Int,
    infoModified :: UTCTime,
    infoAccessed :: UTCTime,
    -- | Permission bits, 07777 at most.
    infoPermission :: Int,
    infoOwner :: String,
    infoGroup :: String
  }
  deriving (Eq, Show)

-- | The last name of the path.
infoName :: Info -> FilePath
infoName = reverse . takeWhile (/= '/') . reverse . infoPath

infoOf :: Fields -> Info
infoOf fields' =
  Info
    { infoPath = name 1,
      infoIsDirectory = number 2 fields' == 2,
      infoIsLink = number 11 fields' /= 0,
      infoLength = number 3 fields',
      infoBlockSize = number 4 fields',
      infoReplication = fromIntegral (number 5 fields'),
      infoModified = time 6,
      infoAccessed = time 7,
      infoPermission = fromIntegral (number 8 fields'),
      infoOwner = name 9,
      infoGroup = name 10
    }
  where
    name field = fromMaybe "" (string field fields')
    time field = posixSecondsToUTCTime (fromIntegral (number field fields') / 1000)

number :: Int16 -> Fields -> Int64
number field = fromMaybe 0 . integer field

-- | What the store knows of a file or directory.
getInfo :: Client -> FilePath -> IO Info
getInfo client path = do
  reply <- query client (Request "getFileInfo" [path] [(2, text path)])
  maybe (throwIO (straitError Internal (Just path) "the gateway's reply says nothing")) (pure . infoOf) (struct 1 reply)

-- | Nothing if the path is missing.
lookupInfo :: Client -> FilePath -> IO (Maybe Info)
lookupInfo client path = absent [NotFound] Nothing (Just <$> getInfo client path)

-- | Whether there is a file or directory at the path.
doesPathExist :: Client -> FilePath -> IO Bool
doesPathExist client path = absent [NotFound, NotADirectory] False (True <$ getInfo client path)

absent :: [ErrorKind] -> a -> IO a -> IO a
absent kinds result = handleJust (\failure -> guard (errorKind failure `elem` kinds)) (\() -> pure result)

-- | A directory's entries, in the store's order.
listDirectory :: Client -> FilePath -> IO [Info]
listDirectory client path = reverse <$> foldDirectory client path Nothing (\found entry -> pure (entry : found)) []

-- | Folds over a directory's entries in the store's order, which it fetches page by page: a directory may be larger
-- than memory. The number is of a page's entries; without it, the gateway decides.
foldDirectory :: Client -> FilePath -> Maybe Int32 -> (a -> Info -> IO a) -> a -> IO a
foldDirectory client path pageEntries step start = do
  first <- query client (page Nothing)
  began <- incarnation client
  let go reply accumulated = do
        let cursor = integer 2 reply
        let entries = map infoOf (structs 1 reply)
        after <- (check entries cursor >> foldM step accumulated entries) `onException` mapM_ leave cursor
        case cursor of
          Nothing -> pure after
          Just _ -> do
            -- The cursor moves with each answer, so a page after the first is asked for once.
            next <- once client (page cursor) `onException` (checkSession >> mapM_ leave cursor)
            checkSession
            go next after
      checkSession = do
        present <- incarnation client
        unless (present == began) . throwIO $
          straitError Unavailable (Just path) "the session ended while the directory was listed; list it again"
  go first start
  where
    page cursor =
      Request "listDirectory" [path] ([(2, text path)] <> optional 3 I64 cursor <> optional 4 I32 pageEntries)
    leave cursor = tidy client (Request "closeFile" [] [(4, I64 cursor)])
    check entries = mapM_ refuse . defect path entries
    refuse why = throwIO (straitError Internal (Just path) ("list " <> path <> ": the gateway " <> why))

-- | What is wrong with a page of a listing. Programs join entries' names to paths of their own.
defect :: FilePath -> [Info] -> Maybe Int64 -> Maybe String
defect _ [] (Just _) = Just "sent an empty page that isn't the last (a defect of the gateway)"
defect path entries _ = listToMaybe [named entry | entry <- entries, not (isChild entry)]
  where
    named entry = "named " <> infoPath entry <> ", which isn't in this directory"
    isChild entry =
      infoPath entry == directory <> "/" <> infoName entry
        && infoName entry `notElem` ["", ".", ".."]
        && '\0' `notElem` infoName entry
    directory = concatMap ('/' :) (names path)
    names rooted = case break (== '/') (dropWhile (== '/') rooted) of
      ("", _) -> []
      (name, rest) -> name : names rest

-- | Makes a directory and its missing parents; one that exists is no error. The permission bits are the directory's.
createDirectories :: Client -> Maybe Int32 -> FilePath -> IO ()
createDirectories client permission path =
  changed client "makeDirectories" [path] ([(4, text path)] <> optional 5 I32 permission)

-- | What happens to a file that already has the target's name.
data Existing
  = -- | It stays, and the operation fails with 'AlreadyExists'.
    KeepExisting
  | ReplaceExisting
  deriving (Eq, Show)

-- | Gives a file or directory another name: the new name itself, never a directory to move into.
renamePath :: Client -> Existing -> FilePath -> FilePath -> IO ()
renamePath client existing source target =
  changed
    client
    "renamePath"
    [source, target]
    [(4, text source), (5, text target), (6, Bool (existing == ReplaceExisting))]

-- | Removes a file or an empty directory.
removePath :: Client -> FilePath -> IO ()
removePath client path = changed client "removePath" [path] [(4, text path), (5, Bool False)]

-- | Removes a file, or a directory and all that is in it.
removeTree :: Client -> FilePath -> IO ()
removeTree client path = changed client "removePath" [path] [(4, text path), (5, Bool True)]

-- | Attributes to set; those that are Nothing stay.
data Attributes = Attributes
  { -- | Permission bits, 07777 at most.
    setPermission :: Maybe Int32,
    setOwner :: Maybe String,
    setGroup :: Maybe String,
    setModified :: Maybe UTCTime,
    setAccessed :: Maybe UTCTime,
    setReplication :: Maybe Int16
  }
  deriving (Eq, Show)

-- | All stay.
keepAttributes :: Attributes
keepAttributes = Attributes Nothing Nothing Nothing Nothing Nothing Nothing

-- | Sets some attributes of a file or directory.
setAttributes :: Client -> FilePath -> Attributes -> IO ()
setAttributes client path new =
  changed client "setAttributes" [path] $
    [(4, text path)]
      <> optional 5 I32 (setPermission new)
      <> optional 6 text (setOwner new)
      <> optional 7 text (setGroup new)
      <> optional 8 milliseconds (setModified new)
      <> optional 9 milliseconds (setAccessed new)
      <> optional 10 I16 (setReplication new)
  where
    milliseconds time = I64 (round (utcTimeToPOSIXSeconds time * 1000))

-- | Cuts a closed file to this many bytes.
truncateFile :: Client -> FilePath -> Int64 -> IO ()
truncateFile client path size = changed client "truncateFile" [path] [(4, text path), (5, I64 size)]

-- | Moves the bytes of other files, in order, to the end of a closed file, in one step.
concatFiles :: Client -> FilePath -> [FilePath] -> IO ()
concatFiles client path sources =
  changed client "concatFiles" (path : sources) [(4, text path), (5, List (map text sources))]

changed :: Client -> ByteString -> [FilePath] -> Fields -> IO ()
changed client name named = void . change client . Request name named

-- | Where a part of a file lies.
data Block = Block
  { blockOffset :: Int64,
    blockLength :: Int64,
    blockHosts :: [String]
  }
  deriving (Eq, Show)

-- | The blocks that hold a part of a file, from an offset, for a length or to the end.
locate :: Client -> FilePath -> Int64 -> Maybe Int64 -> IO [Block]
locate client path offset size = do
  reply <-
    query client . Request "getBlockLocations" [path] $
      [(2, text path), (3, I64 offset)] <> optional 4 I64 size
  pure (map block (structs 1 reply))
  where
    block found = Block (number 1 found) (number 2 found) [decodeText host | Bytes host <- list 3 found]

-- | A store's own checksum of a file. Only checksums by the same algorithm can be compared.
data Checksum = Checksum
  { checksumAlgorithm :: String,
    checksumValue :: ByteString
  }
  deriving (Eq, Show)

-- | The checksum of a file, as its store computes it.
checksum :: Client -> FilePath -> IO Checksum
checksum client path = do
  reply <- query client (Request "getChecksum" [path] [(2, text path)])
  pure (Checksum (fromMaybe "" (string 1 reply)) (fromMaybe "" (bytes 2 reply)))

-- | A whole store, in bytes.
data Status = Status
  { statusCapacity :: Int64,
    statusUsed :: Int64,
    statusRemaining :: Int64
  }
  deriving (Eq, Show)

-- | How full the store is.
status :: Client -> IO Status
status client = do
  reply <- query client (Request "getStoreStatus" [] [])
  pure (Status (number 2 reply) (number 3 reply) (number 4 reply))
