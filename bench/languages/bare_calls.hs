-- bare_calls read|write HOST:PORT PATH MIB: as bare_calls.rb, but by a Handle of a socket: no runtime of Thrift builds
-- with Debian's GHC. The frames have the bytes of Thrift's binary protocol.
{-# LANGUAGE OverloadedStrings #-}

module Main (main) where

import Control.Monad (forM_, void, when)
import Data.Bits (shiftL, (.|.))
import qualified Data.ByteString as B
import Data.ByteString.Builder
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import Data.Int (Int64)
import Data.Time.Clock.POSIX (getPOSIXTime)
import qualified Network.Socket as N
import System.Environment (getArgs)
import System.IO

pieceBytes :: Int
pieceBytes = 1048576

field :: Int -> Int -> Builder -> Builder
field kind number value = int8 (fromIntegral kind) <> int16BE (fromIntegral number) <> value

number32, textSize :: Int -> Int -> Builder
number32 number = field 8 number . int32BE . fromIntegral
textSize number = field 11 number . int32BE . fromIntegral

number64 :: Int -> Int64 -> Builder
number64 number = field 10 number . int64BE

text :: Int -> B.ByteString -> Builder
text number value = textSize number (B.length value) <> byteString value

-- | The same for one change only.
newId :: Int -> Int64 -> IO Builder
newId number n = do
  now <- getPOSIXTime
  pure (text number (L.toStrict (toLazyByteString (int64BE (round (now * 1000000)) <> int64BE n))))

-- | The reply's frame. The last part of a request's fields may be large, so it goes out by itself.
call :: Handle -> B.ByteString -> Builder -> B.ByteString -> IO B.ByteString
call gateway name fields large = do
  let called = int32BE (fromIntegral (B.length name)) <> byteString name <> int32BE 0
      start = L.toStrict (toLazyByteString (byteString "\x80\SOH\NUL\SOH" <> called <> field 12 1 fields))
  B.hPut gateway (L.toStrict (toLazyByteString (int32BE (fromIntegral (B.length start + B.length large + 2)))))
  B.hPut gateway start
  B.hPut gateway large
  B.hPut gateway "\NUL\NUL"
  hFlush gateway
  size <- B.hGet gateway 4
  B.hGet gateway (B.foldl' (\high low -> high `shiftL` 8 .|. fromIntegral low) 0 size)

-- | The first field of a reply.
handleIn :: B.ByteString -> B.ByteString -> Int64
handleIn name = B.foldl' (\high low -> high `shiftL` 8 .|. fromIntegral low) 0 . B.take 8 . B.drop (18 + B.length name)

main :: IO ()
main = do
  [action, address, path, mib] <- getArgs
  let (host, port) = break (== ':') address
  found : _ <- N.getAddrInfo (Just N.defaultHints {N.addrSocketType = N.Stream}) (Just host) (Just (drop 1 port))
  socket <- N.socket (N.addrFamily found) (N.addrSocketType found) (N.addrProtocol found)
  N.connect socket (N.addrAddress found)
  N.setSocketOption socket N.NoDelay 1
  gateway <- N.socketToHandle socket ReadWriteMode
  hSetBuffering gateway (BlockBuffering Nothing)
  void (call gateway "openSession" (number32 1 1) "")
  hSetBuffering stdout LineBuffering
  putStrLn "ready"
  void getLine
  (if action == "read" then readFrom else writeTo) gateway (C.pack path) (read mib)
  putStrLn "done"

readFrom, writeTo :: Handle -> B.ByteString -> Int -> IO ()
readFrom gateway path mib = do
  file <- handleIn "openFile" <$> call gateway "openFile" (text 2 path) ""
  forM_ [0 .. mib - 1] $ \n -> do
    let offset = fromIntegral (n * pieceBytes)
    reply <- call gateway "readRange" (number64 2 file <> number64 3 offset <> number32 4 pieceBytes) ""
    when (B.length reply < pieceBytes) $ fail "a short reply"
  void (call gateway "closeFile" (number64 4 file) "")
writeTo gateway path mib = do
  created <- newId 2 (-1)
  file <- handleIn "createFile" <$> call gateway "createFile" (created <> text 4 path) ""
  let piece = B.replicate pieceBytes 0
  forM_ [0 .. mib - 1] $ \n -> do
    appended <- newId 2 (fromIntegral n)
    let offset = fromIntegral (n * pieceBytes)
    call gateway "appendData" (appended <> number64 4 file <> number64 5 offset <> textSize 6 pieceBytes) piece
  closed <- newId 2 (-2)
  void (call gateway "closeFile" (closed <> number64 4 file) "")
