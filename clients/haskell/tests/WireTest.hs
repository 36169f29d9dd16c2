{-# LANGUAGE OverloadedStrings #-}

-- | The codec against bytes of a hostile gateway.
module WireTest (main) where

import Control.Exception (evaluate)
import Control.Monad (forM_, unless)
import Data.Bits (xor)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Lazy as L
import Strait.Wire
import System.Exit (die)

main :: IO ()
main = do
  check "values survive" (decode (reply everything) == Right everything)
  check "text survives" (decodeText (encodeText "grüße €𝄞") == "grüße €𝄞")
  check "an exception of Thrift's" (decodeReply "m" 7 (typed 3 [(1, Bytes "no m")]) == Left (Rejected "no m"))
  check "types that no message has are read over" $
    decode (raw (doubleField <> byteField <> setField <> mapField <> "\x02\0\x05\x01\0")) == Right [(5, Bool True)]
  forM_ [0 .. B.length (reply everything) - 1] $ \size ->
    refuses ("a reply cut after " <> show size <> " bytes") (B.take size (reply everything))
  refuses "bytes after the end" (reply everything <> "\0")
  refuses "a call in place of a reply" (typed 1 everything)
  refuses "another protocol" ("\x82" <> B.drop 1 (reply everything))
  check "another number" (malformed (decodeReply "m" 8 (reply everything)))
  check "another method" (malformed (decodeReply "n" 7 (reply everything)))
  forM_ ["\x7f\xff\xff\xff", "\xff\xff\xff\xff", "\x80\0\0\0", "\0\0\0\x02"] $ \size -> do
    refuses ("a string of " <> show size) (raw ("\x0b\0\x01" <> size <> "a\0"))
    refuses ("a list of " <> show size) (raw ("\x0f\0\x01\x0c" <> size <> "\0"))
    refuses ("a map of " <> show size) (raw ("\x0d\0\x01\x02\x02" <> size <> "\0\0\0"))
  refuses "a type that Thrift hasn't" (raw "\x01\0\x01\0\0")
  check "some depth" (not (malformed (decode (raw (nested 15)))))
  refuses "structs too deep" (raw (nested 17))
  refuses "lists too deep" (raw ("\x0f\0\x01" <> B.concat (replicate 20 "\x0f\0\0\0\x01") <> "\x02\0\0\0\0" <> "\0"))
  refuses "too many values" (raw ("\x0f\0\x01\x0c\0\x21\0\0" <> B.replicate 0x210000 0 <> "\0"))
  -- Each byte changed in several ways: an answer, without an exception.
  forM_ [0 .. B.length (reply everything) - 1] $ \at ->
    forM_ [1, 0x0f, 0x80, 0xff] $ \bits -> do
      let (before, after) = B.splitAt at (reply everything)
      evaluate (length (show (decode (before <> B.cons (B.head after `xor` bits) (B.drop 1 after)))))
  putStrLn "the codec refuses hostile bytes"
  where
    decode = decodeReply "m" 7
    refuses what frame = check what (malformed (decode frame))

check :: String -> Bool -> IO ()
check claim holds = unless holds $ die ("failed: " <> claim)

malformed :: Either Problem Fields -> Bool
malformed (Left (Malformed _)) = True
malformed _ = False

everything :: Fields
everything =
  [ (0, Struct [(1, Bytes "\0\xff"), (2, List [Struct [(1, I64 minBound)], Struct []]), (3, List [Bytes ""])]),
    (4, Bool False),
    (5, I16 (-2)),
    (6, I32 maxBound),
    (-7, I64 (-1))
  ]

-- | The frame's content of a message of this type: 1 call, 2 reply, 3 exception.
typed :: Int -> Fields -> ByteString
typed kind fields = B.take 3 message <> B.cons (fromIntegral kind) (B.drop 4 message)
  where
    message = B.drop 4 (L.toStrict (encodeCall "m" 7 fields))

reply :: Fields -> ByteString
reply = typed 2

-- | A reply with these bytes as its fields.
raw :: ByteString -> ByteString
raw fields = B.take 13 (reply []) <> fields

-- | This many nested structs.
nested :: Int -> ByteString
nested depth = B.concat (replicate depth "\x0c\0\x01") <> B.replicate (depth + 1) 0

doubleField, byteField, setField, mapField :: ByteString
doubleField = "\x04\0\x01\0\0\0\0\0\0\0\0"
byteField = "\x03\0\x02\xff"
setField = "\x0e\0\x03\x06\0\0\0\x02\0\x01\0\x02"
mapField = "\x0d\0\x04\x0b\x08\0\0\0\x01\0\0\0\x01k\0\0\0\x2a"
