-- Calls of both generations of the interface. Thrift has no generator for Haskell any more: a codec of its framed
-- binary protocol replaces it. Fields have the numbers of idl/dfs.thrift.
-- ghc -outputdir OUT -o OUT/story story.hs; OUT/story HOST PORT DIRECTORY
{-# LANGUAGE OverloadedStrings #-}

module Main (main) where

import Control.Exception (Exception, throwIO, try)
import Control.Monad (replicateM, unless, when)
import Data.Binary.Get
import Data.Binary.Put
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import Data.Int (Int16, Int32, Int64)
import Data.List (sort)
import Data.Maybe (listToMaybe)
import qualified Data.Text as T
import Data.Text.Encoding (encodeUtf8)
import Data.Word (Word8)
import qualified Network.Socket as N
import System.Environment (getArgs)
import System.IO (Handle, IOMode (..), hClose, hFlush, withBinaryFile)

main :: IO ()
main = do
  [host, port, directory] <- getArgs
  client <- connect host port
  let path = encodeUtf8 (T.pack directory)
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
    Left (DfsServiceIOException text) -> same True ("missing" `B.isInfixOf` text)
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
names number entries = sort [C.takeWhileEnd (/= '/') (bytes number fields) | Struct fields <- entries]

-- Calls

newtype DfsServiceIOException = DfsServiceIOException ByteString deriving (Show)

instance Exception DfsServiceIOException

data DfsError = DfsError {errorCode :: Int32, errorKind, errorMessage, errorPath :: ByteString} deriving (Show)

instance Exception DfsError

-- | A method of DfsService, with its arguments in order.
callOf2009 :: Handle -> ByteString -> [Value] -> IO Value
callOf2009 client method arguments = exchange client method (zip [1 ..] arguments) >>= either (throwIO . failure) pure
  where
    failure fields = DfsServiceIOException (bytes 1 fields)

-- | A method of DfsV2: the fields of its request, and those of its reply.
callOfToday :: Handle -> ByteString -> Fields -> IO Fields
callOfToday client method request = do
  result <- exchange client method [(1, Struct request)]
  case result of
    Right (Struct reply) -> pure reply
    Right other -> fail (C.unpack method <> " answers " <> show other)
    Left fields -> throwIO (DfsError (code fields) (bytes 2 fields) (bytes 3 fields) (bytes 4 fields))
  where
    code fields = case lookup 1 fields of
      Just (I32 number) -> number
      _ -> 0

bytes :: Int16 -> Fields -> ByteString
bytes number fields = case lookup number fields of
  Just (Bytes text) -> text
  _ -> ""

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
  let request = runPut $ do
        putWord32be (version + 1)
        putValue (Bytes method)
        putInt32be 0
        putValue (Struct arguments)
  L.hPut client (runPut (putInt32be (fromIntegral (L.length request))) <> request)
  hFlush client
  size <- runGet getInt32be . L.fromStrict <$> exactly 4
  when (size < 0 || size > maxFrame) $ fail ("a frame of " <> show size <> " bytes")
  reply <- exactly (fromIntegral size)
  case runGetOrFail getReply (L.fromStrict reply) of
    Left (_, _, problem) -> fail problem
    Right (_, _, (2, [(0, value)])) -> pure (Right value)
    Right (_, _, (2, [(_, Struct exception)])) -> pure (Left exception)
    Right (_, _, (_, fields)) -> fail (C.unpack method <> ": " <> show fields)
  where
    getReply = do
      word <- getWord32be
      unless (word .&. 0xffff0000 == version) $ fail "not Thrift's binary protocol"
      _ <- getValue bytesTag -- the method
      _ <- getInt32be
      fields <- getFields
      pure (word .&. 0xff, fields)
    exactly count = do
      part <- B.hGet client count
      when (B.length part < count) $ fail "the gateway closed the connection"
      pure part

version :: (Num a) => a
version = 0x80010000

-- | As the gateway's own limit: nothing is allocated because of a wrong length.
maxFrame :: Int32
maxFrame = 64 * 1024 * 1024

-- Values

-- | The types that the interface uses. A struct is its fields by their numbers.
data Value
  = Bool Bool
  | I16 Int16
  | I32 Int32
  | I64 Int64
  | Bytes ByteString
  | Struct Fields
  | List [Value]
  deriving (Eq, Show)

type Fields = [(Int16, Value)]

bytesTag :: Word8
bytesTag = 11

tagOf :: Value -> Word8
tagOf value = case value of
  Bool _ -> 2
  I16 _ -> 6
  I32 _ -> 8
  I64 _ -> 10
  Bytes _ -> bytesTag
  Struct _ -> 12
  List _ -> 15

putValue :: Value -> Put
putValue value = case value of
  Bool flag -> putWord8 (if flag then 1 else 0)
  I16 number -> putInt16be number
  I32 number -> putInt32be number
  I64 number -> putInt64be number
  Bytes text -> putInt32be (fromIntegral (B.length text)) >> putByteString text
  Struct fields -> mapM_ putField fields >> putWord8 0
  List values -> do
    putWord8 (maybe bytesTag tagOf (listToMaybe values))
    putInt32be (fromIntegral (length values))
    mapM_ putValue values
  where
    putField (number, field) = putWord8 (tagOf field) >> putInt16be number >> putValue field

getValue :: Word8 -> Get Value
getValue tag = case tag of
  2 -> Bool . (/= 0) <$> getWord8
  6 -> I16 <$> getInt16be
  8 -> I32 <$> getInt32be
  10 -> I64 <$> getInt64be
  11 -> Bytes <$> (getInt32be >>= getByteString . fromIntegral)
  12 -> Struct <$> getFields
  15 -> do
    element <- getWord8
    count <- getInt32be
    List <$> replicateM (fromIntegral count) (getValue element)
  _ -> fail ("a value of type " <> show tag)

getFields :: Get Fields
getFields = do
  tag <- getWord8
  if tag == 0 then pure [] else (:) <$> ((,) <$> getInt16be <*> getValue tag) <*> getFields
