{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Thrift's binary protocol, strict, in frames. A message of @idl/dfs.thrift@ is its fields by number, so no generated
-- code is needed.
module Strait.Wire
  ( -- * Messages
    Fields,
    Value (..),
    text,
    optional,

    -- * Fields of a reply
    integer,
    bytes,
    string,
    struct,
    list,
    structs,

    -- * Frames
    maxFrame,
    encodeCall,
    Problem (..),
    decodeReply,

    -- * UTF-8
    encodeText,
    decodeText,
  )
where

import Control.Monad (replicateM, unless, when)
import Control.Monad.Trans.Class (lift)
import Control.Monad.Trans.State.Strict (StateT (..), get, put)
import Data.Bits (Bits, shiftL, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Lazy as L
import Data.Int (Int16, Int32, Int64)
import Data.Maybe (catMaybes, fromMaybe, listToMaybe)
import qualified Data.Text as T
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import Data.Word (Word32, Word8)

-- | A struct: its fields by their numbers.
type Fields = [(Int16, Value)]

-- | A value of a type that the interface uses.
data Value
  = Bool !Bool
  | I16 !Int16
  | I32 !Int32
  | I64 !Int64
  | Bytes !ByteString
  | Struct Fields
  | List [Value]
  deriving (Eq, Show)

-- | A string, in UTF-8.
text :: String -> Value
text = Bytes . encodeText

-- | A field that is sent only if there is a value.
optional :: Int16 -> (a -> Value) -> Maybe a -> Fields
optional number make = foldMap (\value -> [(number, make value)])

-- A field of another type than expected counts as absent, as in Thrift's own decoders.

-- | Also a boolean, as 0 or 1.
integer :: Int16 -> Fields -> Maybe Int64
integer number fields =
  lookup number fields >>= \case
    Bool flag -> Just (if flag then 1 else 0)
    I16 small -> Just (fromIntegral small)
    I32 middle -> Just (fromIntegral middle)
    I64 large -> Just large
    _ -> Nothing

bytes :: Int16 -> Fields -> Maybe ByteString
bytes number fields = lookup number fields >>= \case Bytes found -> Just found; _ -> Nothing

string :: Int16 -> Fields -> Maybe String
string number = fmap decodeText . bytes number

struct :: Int16 -> Fields -> Maybe Fields
struct number fields = lookup number fields >>= \case Struct found -> Just found; _ -> Nothing

-- | Empty if it is absent.
list :: Int16 -> Fields -> [Value]
list number fields = case lookup number fields of Just (List found) -> found; _ -> []

structs :: Int16 -> Fields -> [Fields]
structs number fields = [found | Struct found <- list number fields]

-- Frames

-- | Bytes of the largest reply, as the gateway's own limit of a message.
maxFrame :: Int64
maxFrame = 16 `shiftL` 20

-- | Values of the largest reply. Blocks of a large file have about half as many in a frame of 'maxFrame' bytes. Without
-- this limit, a hostile frame could take some hundred times its size in memory.
maxValues :: Int
maxValues = 2 `shiftL` 20

-- | Structs and lists within each other. No reply has more than 5.
maxDepth :: Int
maxDepth = 16

-- | The high half of a message's first word; the low half is its type.
version, callType, replyType, exceptionType :: Word32
version = 0x80010000
callType = 1
replyType = 2
exceptionType = 3

-- | A frame that calls the method, with a sequence number and the method's arguments.
encodeCall :: ByteString -> Int32 -> Fields -> L.ByteString
encodeCall method number arguments = Builder.toLazyByteString (Builder.int32BE size) <> message
  where
    size = fromIntegral (L.length message)
    message =
      Builder.toLazyByteString $
        Builder.word32BE (version .|. callType) <> prefixed method <> Builder.int32BE number <> putFields arguments

-- | Why a frame isn't the reply to a call.
data Problem
  = -- | It isn't what Thrift's protocol allows here, so the connection is of no use any more.
    Malformed String
  | -- | The gateway doesn't execute such a call.
    Rejected String
  deriving (Eq, Show)

-- | The content of a frame, as the reply to this method and sequence number. Of its fields, 0 is the result, and others
-- are exceptions that the interface names.
decodeReply :: ByteString -> Int32 -> ByteString -> Either Problem Fields
decodeReply method number frame = case runStateT reply (Input frame maxValues) of
  Left why -> Left (Malformed why)
  Right (Left why, _) -> Left (Rejected why)
  Right (Right fields, _) -> Right fields
  where
    reply = do
      word <- integral 4
      when (word .&. 0xffff0000 /= version) $ broken "no reply of Thrift's binary protocol"
      name <- getBytes
      answered <- integral 4
      when (answered /= number) $ broken "a reply to another request"
      fields <- getFields 0
      Input left _ <- get
      unless (B.null left) $ broken "a reply that doesn't end with its frame"
      case word .&. 0xff of
        kind
          | kind == exceptionType -> pure (Left (fromMaybe "" (string 1 fields)))
          | kind == replyType && name == method -> pure (Right fields)
        _ -> broken "a reply to another method"

-- Values to bytes

tagOf :: Value -> Word8
tagOf value = case value of
  Bool _ -> 2
  I16 _ -> 6
  I32 _ -> 8
  I64 _ -> 10
  Bytes _ -> 11
  Struct _ -> 12
  List _ -> 15

putFields :: Fields -> Builder.Builder
putFields fields = foldMap putField fields <> Builder.word8 0
  where
    putField (number, value) = Builder.word8 (tagOf value) <> Builder.int16BE number <> putValue value

putValue :: Value -> Builder.Builder
putValue value = case value of
  Bool flag -> Builder.word8 (if flag then 1 else 0)
  I16 small -> Builder.int16BE small
  I32 middle -> Builder.int32BE middle
  I64 large -> Builder.int64BE large
  Bytes content -> prefixed content
  Struct fields -> putFields fields
  List values ->
    Builder.word8 (maybe (tagOf (Bytes "")) tagOf (listToMaybe values))
      <> Builder.int32BE (fromIntegral (length values))
      <> foldMap putValue values

prefixed :: ByteString -> Builder.Builder
prefixed content = Builder.int32BE (fromIntegral (B.length content)) <> Builder.byteString content

-- Bytes to values

-- | What is left of a frame, and how many values it may still have.
data Input = Input !ByteString !Int

type Parser = StateT Input (Either String)

broken :: String -> Parser a
broken = lift . Left

-- | This many bytes, without a copy. The length is checked against the rest of the frame.
slice :: Int -> Parser ByteString
slice size = do
  Input left values <- get
  when (size < 0 || size > B.length left) $ broken "a reply with a wrong length"
  let (taken, rest) = B.splitAt size left
  put (Input rest values)
  pure taken

integral :: (Bits a, Num a) => Int -> Parser a
integral size = do
  digits <- slice size
  pure $! B.foldl' (\value byte -> value `shiftL` 8 .|. fromIntegral byte) 0 digits

getBytes :: Parser ByteString
getBytes = do
  size <- integral 4
  slice (fromIntegral (size :: Int32))

getFields :: Int -> Parser Fields
getFields depth = do
  tag <- integral 1
  if tag == 0
    then pure []
    else do
      number <- integral 2
      value <- getValue (depth + 1) tag
      maybe id (\known -> ((number, known) :)) value <$> getFields depth

-- | Nothing for a type that no message has: a newer gateway's fields are read over.
getValue :: Int -> Word8 -> Parser (Maybe Value)
getValue depth tag = do
  Input left values <- get
  when (values == 0) $ broken "a reply with too many values"
  when (depth > maxDepth) $ broken "a reply that is too deep"
  put (Input left (values - 1))
  case tag of
    2 -> Just . Bool . (/= (0 :: Word8)) <$> integral 1
    3 -> Nothing <$ slice 1
    4 -> Nothing <$ slice 8
    6 -> Just . I16 <$> integral 2
    8 -> Just . I32 <$> integral 4
    10 -> Just . I64 <$> integral 8
    11 -> Just . Bytes <$> getBytes
    12 -> Just . Struct <$> getFields depth
    13 -> Nothing <$ (replicateM 2 (integral 1) >>= getItems depth)
    14 -> Nothing <$ (replicateM 1 (integral 1) >>= getItems depth)
    15 -> Just . List . catMaybes <$> (replicateM 1 (integral 1) >>= getItems depth)
    _ -> broken "a reply with a field of an unknown type"

-- | Items of a list, or of a map, which has two types. An item takes a byte at least.
getItems :: Int -> [Word8] -> Parser [Maybe Value]
getItems depth tags = do
  count <- integral 4
  Input left _ <- get
  when (count < 0 || count > (fromIntegral (B.length left) :: Int32)) $ broken "a reply with a wrong length"
  concat <$> replicateM (fromIntegral count) (mapM (getValue (depth + 1)) tags)

-- UTF-8

-- | Whatever the locale is. A surrogate becomes bytes that a gateway refuses, and never another character.
encodeText :: String -> ByteString
encodeText = L.toStrict . Builder.toLazyByteString . Builder.stringUtf8

decodeText :: ByteString -> String
decodeText = T.unpack . decodeUtf8With lenientDecode
