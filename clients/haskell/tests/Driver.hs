{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Answers the requests of tests/languages/driver.py. It is compiled with the library's sources.
module Driver (main) where

import Control.Exception (displayException, handle)
import Control.Monad (replicateM, unless)
import Data.Binary.Get (getInt32be, runGet)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import Data.IORef (IORef, modifyIORef', newIORef, readIORef, writeIORef)
import Data.Int (Int64)
import Data.List (intercalate)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import qualified Data.Set as Set
import Data.Time.Clock (UTCTime)
import Data.Time.Clock.POSIX (posixSecondsToUTCTime, utcTimeToPOSIXSeconds)
import qualified Strait
import Strait.Connection (Request (..))
import Strait.Session (once)
import Strait.Wire (Fields, Value (..), decodeText, encodeText)
import System.IO (hSetBinaryMode, stdin, stdout)
import qualified System.IO as Local

data File = Reading Strait.Reader | Writing Strait.Writer

data State = State
  { clients :: IORef (Map.Map ByteString Strait.Client),
    files :: IORef (Map.Map ByteString File),
    used :: IORef (Maybe Strait.Client)
  }

main :: IO ()
main = do
  hSetBinaryMode stdin True
  hSetBinaryMode stdout True
  state <- State <$> newIORef Map.empty <*> newIORef Map.empty <*> newIORef Nothing
  serve state
  readIORef (clients state) >>= mapM_ Strait.close

serve :: State -> IO ()
serve state = do
  size <- B.hGet stdin 4
  unless (B.null size) $ do
    parts <- replicateM (decoded size) (B.hGet stdin 4 >>= B.hGet stdin . decoded)
    reply <- handle (pure . told) (("ok" :) <$> answer state (C.unpack (head parts)) (tail parts))
    Builder.hPutBuilder stdout (counted (length reply) <> foldMap encoded reply)
    Local.hFlush stdout
    serve state
  where
    decoded = fromIntegral . runGet getInt32be . L.fromStrict
    counted = Builder.int32BE . fromIntegral
    encoded part = counted (B.length part) <> Builder.byteString part
    told failure =
      [ "error",
        shown (Strait.errorKind failure),
        maybe "" encodeText (Strait.errorPath failure),
        encodeText (displayException failure),
        "an IOError"
      ]

answer :: State -> String -> [ByteString] -> IO [ByteString]
answer state operation arguments = case operation of
  "connect" -> do
    client <- Strait.connect (name 1) Strait.defaultOptions {Strait.optionTimeoutMs = int 2}
    modifyIORef' (clients state) (Map.insert (part 0) client)
    writeIORef (used state) (Just client)
    store <- Strait.store client
    pure [encodeText (intercalate "," (Set.toList (Strait.storeCapabilities store)))]
  "use" -> done (readIORef (clients state) >>= writeIORef (used state) . Map.lookup (part 0))
  "disconnect" -> done $ do
    known <- readIORef (clients state)
    mapM_ Strait.close (Map.lookup (part 0) known)
    writeIORef (clients state) (Map.delete (part 0) known)
  "open" -> done (withClient open >>= modifyIORef' (files state) . Map.insert (part 0))
  "read" -> do
    reader <- readerOf
    (: []) <$> if int 1 < 0 then Strait.hGetContents reader else Strait.hGet reader (int 1)
  "pread" -> readerOf >>= \reader -> (: []) <$> Strait.hGetAt reader (long 1) (int 2)
  "write" -> done (writerOf >>= (`Strait.hPut` part 1))
  "position" -> (: []) . shown <$> (fileOf >>= either' Strait.hTell Strait.hTell)
  "flush" -> done (writerOf >>= Strait.hFlush)
  "sync" -> done (writerOf >>= Strait.hSync)
  "close" -> done $ do
    fileOf >>= either' Strait.hClose Strait.hClose
    modifyIORef' (files state) (Map.delete (part 0))
  "stat" -> withClient $ \client -> do
    info <- Strait.getInfo client (name 0)
    pure
      [ if Strait.infoIsDirectory info then "directory" else "file",
        shown (Strait.infoLength info),
        shown (Strait.infoPermission info),
        shown (Strait.infoReplication info),
        shown (milliseconds (Strait.infoModified info)),
        shown (milliseconds (Strait.infoAccessed info))
      ]
  "exists" -> withClient $ \client -> (\there -> [if there then "1" else "0"]) <$> Strait.doesPathExist client (name 0)
  "list" -> withClient $ \client ->
    let collect found entry = pure (encodeText (Strait.infoName entry) : found)
     in Strait.foldDirectory client (name 0) (number 1) collect []
  "mkdirs" -> done . withClient $ \client -> Strait.createDirectories client (number 1) (name 0)
  "rename" -> done . withClient $ \client -> Strait.renamePath client (existing 2) (name 0) (name 1)
  "remove" -> done . withClient $ \client -> (if flag 1 then Strait.removeTree else Strait.removePath) client (name 0)
  "attributes" -> done . withClient $ \client ->
    Strait.setAttributes client (name 0) $
      Strait.keepAttributes
        { Strait.setPermission = number 1,
          Strait.setReplication = number 2,
          Strait.setModified = time <$> number 3,
          Strait.setAccessed = time <$> number 4
        }
  "truncate" -> done . withClient $ \client -> Strait.truncateFile client (name 0) (long 1)
  "concat" -> done . withClient $ \client ->
    Strait.concatFiles client (name 0) (map name [1 .. length arguments - 1])
  "put" -> done . withClient $ \client -> Strait.putFile client (existing 2) (name 0) (name 1)
  "locate" -> withClient $ \client -> do
    blocks <- Strait.locate client (name 0) (long 1) (number 2)
    pure (concat [map shown [offset, size, fromIntegral (length hosts)] | Strait.Block offset size hosts <- blocks])
  "checksum" -> withClient $ \client -> do
    Strait.Checksum algorithm value <- Strait.checksum client (name 0)
    pure [encodeText algorithm, value]
  "status" -> withClient $ \client -> do
    Strait.Status capacity occupied remaining <- Strait.status client
    pure (map shown [capacity, occupied, remaining])
  "uri" -> do
    Strait.Uri host port store path <- either (ioError . Strait.toIOError) pure (Strait.parseUri (name 0))
    pure [encodeText host, shown port, maybe "" encodeText store, encodeText path]
  "request" -> do
    known <- readIORef (clients state)
    reply <- once (known Map.! part 0) (Request (part 1) [] (requestFields (drop 2 arguments)))
    pure (concat [[shown field, value] | (field, Just value) <- map (fmap plain) reply])
  _ -> fail ("no operation " <> operation)
  where
    part = (arguments !!)
    name = decodeText . part
    flag index = part index == "1"
    number :: Num n => Int -> Maybe n
    number index = fromInteger . fst <$> C.readInteger (part index)
    int index = fromMaybe (error "no number") (number index) :: Int
    long index = fromMaybe (error "no number") (number index) :: Int64
    existing index = if flag index then Strait.ReplaceExisting else Strait.KeepExisting
    done action = [] <$ action
    withClient action = readIORef (used state) >>= maybe (fail "no client") action
    fileOf = (Map.! part 0) <$> readIORef (files state)
    readerOf = fileOf >>= either' pure (\_ -> fail "not a reader")
    writerOf = fileOf >>= either' (\_ -> fail "not a writer") pure
    either' ofReader ofWriter = \case
      Reading reader -> ofReader reader
      Writing writer -> ofWriter writer
    open client = case part 2 of
      "read" -> Reading <$> Strait.openFile client (name 1) Strait.ReadMode
      "append" -> Writing <$> Strait.openFile client (name 1) Strait.AppendMode
      mode ->
        Writing <$> Strait.openFile client (name 1) (Strait.CreateMode created)
        where
          created =
            Strait.defaultCreation
              { Strait.createOverwrite = mode == "overwrite",
                Strait.createPermission = number 3
              }

-- | Triples of a field's number, its type, and its value.
requestFields :: [ByteString] -> Fields
requestFields (number : kind : value : others) = (integer number, typed) : requestFields others
  where
    typed = case kind of
      "2" -> Bool (value == "1")
      "6" -> I16 (integer value)
      "8" -> I32 (integer value)
      "10" -> I64 (integer value)
      _ -> Bytes value
    integer :: Num n => ByteString -> n
    integer = maybe 0 (fromInteger . fst) . C.readInteger
requestFields _ = []

plain :: Value -> Maybe ByteString
plain = \case
  Bool value -> Just (if value then "1" else "0")
  I16 value -> Just (shown value)
  I32 value -> Just (shown value)
  I64 value -> Just (shown value)
  Bytes value -> Just value
  _ -> Nothing

shown :: Show a => a -> ByteString
shown = C.pack . show

milliseconds :: UTCTime -> Int64
milliseconds moment = round (utcTimeToPOSIXSeconds moment * 1000)

time :: Int64 -> UTCTime
time ms = posixSecondsToUTCTime (fromIntegral ms / 1000)
