-- | Addresses: @strait:\/\/HOST:PORT\/\@STORE\/PATH@. Nothing is decoded.
module Strait.Uri
  ( Uri (..),
    parseUri,
    parseAddress,
    authority,
  )
where

import qualified Data.ByteString as B
import Data.Char (isDigit, isSpace)
import Data.List (intercalate, isInfixOf, stripPrefix)
import Data.Maybe (maybeToList)
import Strait.Error
import Strait.Wire (encodeText)

-- | The parts of a URI.
data Uri = Uri
  { uriHost :: String,
    uriPort :: Int,
    -- | Nothing: the gateway's default store.
    uriStore :: Maybe String,
    -- | It begins with a slash.
    uriPath :: FilePath
  }
  deriving (Eq, Show)

scheme :: String
scheme = "strait://"

defaultPort, maxPort, maxPortDigits, maxNameBytes :: Int
defaultPort = 9090
maxPort = 65535
maxPortDigits = 5
maxNameBytes = 255 -- as POSIX's NAME_MAX

-- | A first component @\@NAME@ names a store; one that begins with @\@\@@ is a directory with one @\@@ less.
parseUri :: String -> Either StraitError Uri
parseUri uri = do
  rest <- maybe (wrong (shown <> " doesn't begin with " <> scheme)) Right (stripPrefix scheme uri)
  let (place, path) = break (== '/') rest
  (host, port) <- parseAuthority place
  (store, names) <- case components path of
    ('@' : '@' : name) : names -> Right (Nothing, ('@' : name) : names)
    ('@' : "") : _ ->
      wrong (show uri <> ": a store's name follows the @, as in /@lab; a directory called @ is /@@")
    ('@' : name) : names -> Right (Just name, names)
    names -> Right (Nothing, names)
  mapM_ checkName (maybeToList store <> names)
  Right (Uri host port store ('/' : intercalate "/" names))
  where
    -- With an @, it may hold a password.
    shown = if '@' `elem` uri then "it" else uri
    checkName name
      | name `elem` [".", ".."] || '\0' `elem` name || B.length (encodeText name) > maxNameBytes =
        wrong (show uri <> " has a name that is . or .., holds a NUL byte, or is longer than 255 bytes")
      | otherwise = Right ()

-- | Those between the slashes, without empty ones.
components :: String -> [String]
components path = case break (== '/') path of
  (name, rest) -> [name | not (null name)] <> if null rest then [] else components (drop 1 rest)

parseAuthority :: String -> Either StraitError (String, Int)
parseAuthority place
  | '@' `elem` place = wrong "an address names no user; the options take user and password"
  | otherwise = maybe (wrong (show place <> " is no HOST:PORT")) Right $ do
    (host, rest) <- hostOf place
    port <- portOf rest
    if null host then Nothing else Just (host, port)
  where
    hostOf ('[' : bracketed) = case break (== ']') bracketed of
      (host, ']' : rest) -> Just (host, rest)
      _ -> Nothing
    hostOf plain = Just (break (\c -> isSpace c || c `elem` ":?#[]") plain)
    portOf "" = Just defaultPort
    portOf ":" = Just defaultPort
    portOf (':' : digits)
      | all isDigit digits && length digits <= maxPortDigits && read digits `elem` [1 .. maxPort] = Just (read digits)
    portOf _ = Nothing

-- | The address of a gateway, or of one of its stores: @HOST:PORT@ will do.
parseAddress :: String -> Either StraitError Uri
parseAddress address = do
  uri <- parseUri (if "://" `isInfixOf` address then address else scheme <> address)
  if uriPath uri == "/"
    then Right uri
    else wrong ("an address ends with the gateway or its store, and has no path: " <> address)

-- | @HOST:PORT@, for messages.
authority :: Uri -> String
authority (Uri host port _ _) = (if ':' `elem` host then "[" <> host <> "]" else host) <> ":" <> show port

wrong :: String -> Either StraitError a
wrong why =
  Left (straitError InvalidArgument Nothing ("not the address of a gateway, strait://host:port/@store: " <> why))
