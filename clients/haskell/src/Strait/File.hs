{-# LANGUAGE GADTs #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Open files, with the names of "System.IO".
module Strait.File
  ( -- * Opening
    Mode (..),
    Creation (..),
    defaultCreation,
    openFile,
    withFile,
    File (..),

    -- * Reading
    Reader,
    hGet,
    hGetContents,
    hGetAt,
    hSeek,
    hFileSize,

    -- * Writing
    Writer,
    hPut,
    hFlush,
    hSync,
  )
where

import Control.Concurrent.MVar (MVar, modifyMVar, modifyMVar_, newMVar, readMVar, withMVarMasked)
import Control.Exception (SomeException, catch, fromException, mask, onException, throwIO)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef, writeIORef)
import Data.Int (Int16, Int32, Int64)
import Data.Maybe (fromMaybe)
import Strait.Connection (Request (..))
import Strait.Error
import Strait.Session
import Strait.Wire
import System.IO (SeekMode (..))

-- | How to open a file; the mode decides what can be done with it.
data Mode file where
  -- | To read an existing file.
  ReadMode :: Mode Reader
  -- | To write a file from its beginning. It replaces a file of that name.
  WriteMode :: Mode Writer
  -- | To write a file whose name isn't taken.
  NewMode :: Mode Writer
  -- | To continue an existing file at its end.
  AppendMode :: Mode Writer
  -- | To write a file with attributes.
  CreateMode :: Creation -> Mode Writer

-- | Attributes of a file that is created; Nothing leaves them to the gateway. Missing parents are created, too.
data Creation = Creation
  { -- | A file of that name is replaced; otherwise it is an error.
    createOverwrite :: Bool,
    -- | Permission bits, 07777 at most.
    createPermission :: Maybe Int32,
    createReplication :: Maybe Int16,
    -- | Bytes.
    createBlockSize :: Maybe Int64
  }
  deriving (Eq, Show)

-- | A new file, without attributes.
defaultCreation :: Creation
defaultCreation = Creation False Nothing Nothing Nothing

-- | Opens a file. 'withFile' also closes it.
openFile :: Client -> FilePath -> Mode file -> IO file
openFile client path mode = case mode of
  ReadMode -> openReader client path
  WriteMode -> openFile client path (CreateMode defaultCreation {createOverwrite = True})
  NewMode -> openFile client path (CreateMode defaultCreation)
  AppendMode -> openWriter client path "appendFile" []
  CreateMode creation ->
    openWriter client path "createFile" $
      [(5, Bool (createOverwrite creation))]
        <> optional 6 I32 (createPermission creation)
        <> optional 7 I16 (createReplication creation)
        <> optional 8 I64 (createBlockSize creation)

-- | Opens a file for an action, and closes it. If the action fails, a file that it writes is abandoned.
withFile :: File file => Client -> FilePath -> Mode file -> (file -> IO a) -> IO a
withFile client path mode action = mask $ \restore -> do
  file <- openFile client path mode
  result <- restore (action file) `onException` hAbandon file
  hClose file `onException` hAbandon file
  pure result

-- | What readers and writers have in common.
class File file where
  -- | The offset of the next byte. Of a writer: the file's length, with all bytes written here.
  hTell :: file -> IO Int64

  -- | Of a writer: puts all bytes on stable storage (except in HDFS), and throws if that fails. In Kadoop, it
  -- may be repeated after 'NoSpace' and 'Unavailable'.
  hClose :: file -> IO ()

  -- | Ends the file. Of a writer: flushed bytes stay; other bytes may be lost.
  hAbandon :: file -> IO ()

-- Reading

-- | A file that is read. 'hGetAt' serves any number of threads at once; other calls wait for each other.
data Reader = Reader
  { readerClient :: Client,
    readerPath :: FilePath,
    opened :: MVar Opened,
    cursor :: MVar Cursor,
    isClosed :: IORef Bool
  }

-- | The gateway's reply when it opened the file.
data Opened = Opened
  { handleNumber :: Int64,
    knownLength :: Int64,
    identity :: Maybe ByteString,
    ofIncarnation :: Int64
  }

-- | The position, and bytes that a request has brought, with their offset: small reads are served from them.
data Cursor = Cursor !Int64 !Int64 !ByteString

openReader :: Client -> FilePath -> IO Reader
openReader client path = do
  first <- openHandle client path
  Reader client path <$> newMVar first <*> newMVar (Cursor 0 0 B.empty) <*> newIORef False

openHandle :: Client -> FilePath -> IO Opened
openHandle client path = do
  reply <- query client (Request "openFile" [path] [(2, text path)])
  Opened (number 1 reply) (number 2 reply) (bytes 3 reply) <$> incarnation client

number :: Int16 -> Fields -> Int64
number field = fromMaybe 0 . integer field

instance File Reader where
  hTell reader = (\(Cursor position _ _) -> position) <$> readMVar (cursor reader)

  hClose reader = do
    before <- atomicModifyIORef' (isClosed reader) (\before -> (True, before))
    unless before $ do
      readMVar (opened reader) >>= forget (readerClient reader)

  hAbandon = hClose

forget :: Client -> Opened -> IO ()
forget client file = tidy client (Request "closeFile" [] [(4, I64 (handleNumber file))])

-- | This many bytes from the position; fewer at the end of the file only.
hGet :: Reader -> Int -> IO ByteString
hGet reader count = do
  when (count < 0) $ throwIO (invalid (readerPath reader) "a negative length")
  modifyMVar (cursor reader) (take' [] count)
  where
    take' parts 0 at = pure (at, joined parts)
    take' parts left (Cursor position from ahead)
      | position >= from && position < from + fromIntegral (B.length ahead) = do
        let part = B.take left (B.drop (fromIntegral (position - from)) ahead)
        take' (part : parts) (left - B.length part) (Cursor (position + fromIntegral (B.length part)) from ahead)
      | otherwise = do
        most <- chunkBytes (readerClient reader)
        next <- fetch reader position most
        let at = Cursor position position next
        if B.null next then pure (at, joined parts) else take' parts left at
    joined [part] | B.length part < copiedBytes = B.copy part
    joined parts = B.concat (reverse parts)

-- | A part below this size is copied, so that it doesn't keep the whole reply of 1 MiB in memory.
copiedBytes :: Int
copiedBytes = 512 * 1024

-- | All bytes from the position to the end of the file.
hGetContents :: Reader -> IO ByteString
hGetContents reader = B.concat <$> rest
  where
    rest = do
      most <- chunkBytes (readerClient reader)
      part <- hGet reader most
      if B.null part then pure [] else (part :) <$> rest

-- | This many bytes from an offset; fewer at the end of the file only. The position stays.
hGetAt :: Reader -> Int64 -> Int -> IO ByteString
hGetAt reader offset count = do
  when (offset < 0 || count < 0) $ throwIO (invalid (readerPath reader) "a negative offset or length")
  B.concat <$> parts offset count
  where
    parts _ 0 = pure []
    parts at left = do
      part <- fetch reader at left
      if B.null part then pure [] else (part :) <$> parts (at + fromIntegral (B.length part)) (left - B.length part)

-- | Moves the position, also beyond the end of the file.
hSeek :: Reader -> SeekMode -> Int64 -> IO ()
hSeek reader mode offset = do
  size <- hFileSize reader
  modifyMVar_ (cursor reader) $ \(Cursor position from ahead) -> do
    let target = offset + case mode of AbsoluteSeek -> 0; RelativeSeek -> position; SeekFromEnd -> size
    when (target < 0) $ throwIO (invalid (readerPath reader) "a position before the file's beginning")
    pure (Cursor target from ahead)

-- | The file's length when it was opened, in bytes.
hFileSize :: Reader -> IO Int64
hFileSize reader = knownLength <$> readMVar (opened reader)

-- | One request's bytes. If the handle ended with its session, the file is opened again, once.
fetch :: Reader -> Int64 -> Int -> IO ByteString
fetch reader offset count = do
  closed <- readIORef (isClosed reader)
  when closed $ throwIO (invalid path "the file is closed")
  used <- readMVar (opened reader)
  range used `catch` \failure -> do
    unless (errorKind failure `elem` [InvalidArgument, NotFound, Unauthenticated]) $ throwIO failure
    modifyMVar (opened reader) (reopen used failure) >>= range
  where
    client = readerClient reader
    path = readerPath reader
    range used = do
      size <- min count <$> chunkBytes client
      reply <-
        query client . Request "readRange" [path] $
          [(2, I64 (handleNumber used)), (3, I64 offset), (4, I32 (fromIntegral size))]
      let found = fromMaybe B.empty (bytes 1 reply)
      when (B.length found > size) $
        throwIO (straitError Internal (Just path) "readRange: the gateway sent more bytes than it was asked for")
      pure found
    reopen used failure latest
      | handleNumber latest /= handleNumber used = pure (latest, latest) -- another thread has done it
      | otherwise = do
        present <- incarnation client
        when (ofIncarnation latest == present && errorKind failure /= NotFound) $ throwIO failure
        new <- openHandle client path
        let isOther = fromMaybe False ((/=) <$> identity latest <*> identity new)
        when (isOther || knownLength new < knownLength latest) $ do
          forget client new
          throwIO (straitError Unavailable (Just path) "the file was replaced while it was read")
        pure (new, new)

-- Writing

-- | A file that is written at its end. After 'NoSpace' and 'Unavailable', a file of Kadoop is still open: it keeps the
-- bytes that the gateway hasn't taken, and sends them first.
data Writer = Writer
  { writerClient :: Client,
    writerPath :: FilePath,
    writerHandle :: Int64,
    writerIncarnation :: Int64,
    -- | One call at a time.
    writing :: MVar (),
    progress :: IORef Progress
  }

data Progress
  = -- | The file's length at the gateway; bytes not yet sent, the latest first, and how many they are.
    Writing !Int64 [ByteString] !Int
  | -- | Closed, at this length.
    Done !Int64
  | -- | Over, because of this error; and the length with all bytes written here.
    Failed StraitError !Int64

openWriter :: Client -> FilePath -> ByteString -> Fields -> IO Writer
openWriter client path method' more = do
  reply <- change client (Request method' [path] ((4, text path) : more))
  Writer client path (number 1 reply) <$> incarnation client <*> newMVar () <*> newIORef (Writing (number 2 reply) [] 0)

instance File Writer where
  hTell writer = do
    state <- readIORef (progress writer)
    pure $ case state of
      Writing length' _ kept -> length' + fromIntegral kept
      Done length' -> length'
      Failed _ length' -> length'

  hClose writer = exclusively writer $ do
    state <- readIORef (progress writer)
    case state of
      Writing {} -> do
        length' <- send writer
        let request = Request "closeFile" [writerPath writer] [(4, handleOf writer)]
        void (guarded writer (change (writerClient writer) request))
        writeIORef (progress writer) (Done length')
      Failed _ length' -> abandon writer length' -- a call before has thrown
      Done _ -> pure ()

  hAbandon writer = exclusively writer $ do
    state <- readIORef (progress writer)
    case state of
      Writing length' _ _ -> abandon writer length'
      Failed _ length' -> abandon writer length'
      Done _ -> pure ()

abandon :: Writer -> Int64 -> IO ()
abandon writer length' = do
  writeIORef (progress writer) (Done length')
  identified (Request "closeFile" [] [(4, handleOf writer), (5, Bool True)]) >>= tidy (writerClient writer)

-- | Writes all bytes. If a write of up to 1 MiB fails, it has taken nothing; 'hTell' shows what a longer one has taken.
hPut :: Writer -> ByteString -> IO ()
hPut writer content = exclusively writer $ do
  most <- chunkBytes (writerClient writer)
  let put' left = unless (B.null left) $ do
        (_, _, kept) <- current writer
        when (kept + min most (B.length left) > most) $ void (send writer)
        (length', parts, kept') <- current writer
        let (part, rest) = B.splitAt (most - kept') left
        writeIORef (progress writer) (Writing length' (part : parts) (kept' + B.length part))
        put' rest
  void (current writer)
  put' content

-- | Makes the written bytes visible to readers that open the file afterwards. In object stores it promises nothing.
hFlush :: Writer -> IO ()
hFlush = flush 1

-- | Puts the written bytes on stable storage. In object stores it promises nothing.
hSync :: Writer -> IO ()
hSync = flush 2

flush :: Int32 -> Writer -> IO ()
flush mode writer = exclusively writer $ do
  void (send writer)
  void . guarded writer $
    query (writerClient writer) (Request "flushFile" [writerPath writer] [(2, handleOf writer), (3, I32 mode)])

handleOf :: Writer -> Value
handleOf = I64 . writerHandle

-- | Masked, so that an interruption comes before a reply or after it is noted.
exclusively :: Writer -> IO a -> IO a
exclusively writer action = withMVarMasked (writing writer) (const action)

-- | Where an open file is.
current :: Writer -> IO (Int64, [ByteString], Int)
current writer = do
  state <- readIORef (progress writer)
  case state of
    Writing length' parts kept -> pure (length', parts, kept)
    Done _ -> throwIO (invalid (writerPath writer) "the file is closed")
    Failed failure _ -> throwIO failure

-- | Sends the kept bytes, and returns the file's length then.
send :: Writer -> IO Int64
send writer = do
  (length', parts, kept) <- current writer
  if kept == 0
    then pure length'
    else do
      let joined = B.concat (reverse parts)
          after = length' + fromIntegral kept
      writeIORef (progress writer) (Writing length' [joined] kept)
      void . guarded writer . change (writerClient writer) . Request "appendData" [writerPath writer] $
        [(4, handleOf writer), (5, I64 length'), (6, Bytes joined)]
      writeIORef (progress writer) (Writing after [] 0)
      pure after

-- | After 'NoSpace' and 'Unavailable' the file goes on. After other errors it is over, and also if the program
-- interrupts the request, since nobody knows then what the gateway has done.
guarded :: Writer -> IO a -> IO a
guarded writer action =
  action `catch` \failure -> case fromException failure of
    Just known
      | errorKind known `elem` [NoSpace, Unavailable] -> throwIO known
      | otherwise -> do
        present <- incarnation (writerClient writer)
        let isOther = errorKind known == InvalidArgument && present /= writerIncarnation writer
            isGone = isOther || errorKind known == Unauthenticated
        over (if isGone then unknown "the session ended while the file was written" else known) >>= throwIO
    Nothing -> do
      void (over (unknown "the program interrupted the request"))
      throwIO (failure :: SomeException)
  where
    unknown = straitError OutcomeUnknown (Just (writerPath writer))
    over failure = do
      length' <- hTell writer
      failure <$ writeIORef (progress writer) (Failed failure length')

invalid :: FilePath -> String -> StraitError
invalid path = straitError InvalidArgument (Just path)
