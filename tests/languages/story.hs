-- Calls of both generations of the interface, by the codec of the client for Haskell. Fields have the numbers of
-- idl/dfs.thrift.
-- ghc -iclients/haskell/src -outputdir OUT -o OUT/story tests/languages/story.hs; OUT/story HOST PORT DIRECTORY
{-# LANGUAGE OverloadedStrings #-}

module Main (main) where

import Control.Exception (Exception, throwIO, try)
import Control.Monad (unless, when)
import Data.Binary.Get (getInt32be, runGet)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import Data.Int (Int16, Int64)
import Data.List (sort)
import Data.Maybe (fromMaybe)
import qualified Network.Socket as N
import Strait.Wire (Fields, Value (..), bytes, decodeReply, encodeCall, encodeText, integer, maxFrame)
import System.Environment (getArgs)
import System.IO (Handle, IOMode (..), hClose, hFlush, withBinaryFile)

main :: IO ()
main = do
  [host, port, directory] <- getArgs
  client <- connect host port
  let path = encodeText directory
  callsOf2009 client path
  callsOfToday client path
  hClose client
  putStrLn "Haskell: both generations of calls"

callsOf2009 :: Handle -> ByteString -> IO ()
callsOf2009 client directory = do
  let call = callOf2009 client
      path = Bytes (directory <> "/old")
  session <- call "init" [Bytes ""]
  call "mkdir" [session, Bytes directory] >>= same (Bool True)
  written <- call "open" [session, path, I16 2] -- WRITE
  call "write" [session, written, Bytes "bytes\0\xff", I64 (-1), I64 7] >>= same (Bool True)
  call "close" [session, written] >>= same (Bool True)
  Struct status <- call "stat" [session, path]
  same (Just (I64 7)) (lookup 1 status)
  reader <- call "open" [session, path, I16 1] -- READ
  call "read" [session, reader, I64 0, I64 100] >>= same (Bytes "bytes\0\xff")
  call "close" [session, reader] >>= same (Bool True)
  List files <- call "listFiles" [session, Bytes directory]
  same ["old"] (names 9 files)
  failure <- try (call "stat" [session, Bytes (directory <> "/missing")])
  case failure of
    Left (DfsServiceIOException message) -> same True ("missing" `B.isInfixOf` message)
    Right _ -> fail "no exception"
  call "closeClient" [session] >>= same (Bool True)

callsOfToday :: Handle -> ByteString -> IO ()
callsOfToday client directory = do
  let call = callOfToday client
      path = Bytes (directory <> "/new")
      missing = directory <> "/missing"
      -- The same in each attempt of one change, so that a repeated one isn't executed twice.
      newId = Bytes <$> withBinaryFile "/dev/urandom" ReadMode (`B.hGet` 16)
  _ <- call "openSession" [(1, I32 1)]
  createId <- newId
  Just writer <- lookup 1 <$> call "createFile" [(2, createId), (4, path)]
  appendId <- newId
  appended <- call "appendData" [(2, appendId), (4, writer), (5, I64 0), (6, Bytes "bytes\0\xff")]
  same (Just (I64 7)) (lookup 1 appended)
  closeId <- newId
  closed <- call "closeFile" [(2, closeId), (4, writer)]
  same (Just (I64 7)) (lookup 1 closed)
  Just reader <- lookup 1 <$> call "openFile" [(2, path)]
  range <- call "readRange" [(2, reader), (3, I64 2), (4, I32 100)]
  same (Just (Bytes "tes\0\xff")) (lookup 1 range)
  _ <- call "closeFile" [(4, reader)]
  Just (List entries) <- lookup 1 <$> call "listDirectory" [(2, Bytes directory)]
  same ["new", "old"] (names 1 entries)
  failure <- try (call "getFileInfo" [(2, Bytes missing)])
  case failure of
    Left e -> same (1, "NotFound", missing) (errorCode e, errorKind e, errorPath e)
    Right _ -> fail "no exception"
  removeId <- newId
  _ <- call "removePath" [(2, removeId), (4, Bytes directory), (5, Bool True)]
  _ <- call "closeSession" []
  pure ()

same :: (Eq a, Show a) => a -> a -> IO ()
same wanted got = unless (got == wanted) $ fail (show got <> " in place of " <> show wanted)

-- | The last names of these entries, whose paths are in field @number@.
names :: Int16 -> [Value] -> [ByteString]
names number entries = sort [C.takeWhileEnd (/= '/') (content number fields) | Struct fields <- entries]

-- Calls

newtype DfsServiceIOException = DfsServiceIOException ByteString deriving (Show)

instance Exception DfsServiceIOException

data DfsError = DfsError {errorCode :: Int64, errorKind, errorMessage, errorPath :: ByteString} deriving (Show)

instance Exception DfsError

-- | A method of DfsService, with its arguments in order.
callOf2009 :: Handle -> ByteString -> [Value] -> IO Value
callOf2009 client method arguments = exchange client method (zip [1 ..] arguments) >>= either (throwIO . failure) pure
  where
    failure fields = DfsServiceIOException (content 1 fields)

-- | A method of DfsV2: the fields of its request, and those of its reply.
callOfToday :: Handle -> ByteString -> Fields -> IO Fields
callOfToday client method request = do
  result <- exchange client method [(1, Struct request)]
  case result of
    Right (Struct reply) -> pure reply
    Right other -> fail (C.unpack method <> " answers " <> show other)
    Left fields ->
      throwIO (DfsError (fromMaybe 0 (integer 1 fields)) (content 2 fields) (content 3 fields) (content 4 fields))

content :: Int16 -> Fields -> ByteString
content number = fromMaybe "" . bytes number

connect :: N.HostName -> N.ServiceName -> IO Handle
connect host port = do
  address : _ <- N.getAddrInfo (Just N.defaultHints {N.addrSocketType = N.Stream}) (Just host) (Just port)
  socket <- N.openSocket address
  N.connect socket (N.addrAddress address)
  N.socketToHandle socket ReadWriteMode

-- | The method's result, or the fields of the exception that its interface names. One call at a time, so all have
-- the sequence number 0.
exchange :: Handle -> ByteString -> Fields -> IO (Either Fields Value)
exchange client method arguments = do
  L.hPut client (encodeCall method 0 arguments)
  hFlush client
  size <- runGet getInt32be . L.fromStrict <$> exactly 4
  when (size < 0 || fromIntegral size > maxFrame) $ fail ("a frame of " <> show size <> " bytes")
  reply <- exactly (fromIntegral size)
  case decodeReply method 0 reply of
    Right [(0, value)] -> pure (Right value)
    Right [(_, Struct exception)] -> pure (Left exception)
    other -> fail (C.unpack method <> ": " <> show other)
  where
    exactly count = do
      part <- B.hGet client count
      when (B.length part < count) $ fail "the gateway closed the connection"
      pure part
