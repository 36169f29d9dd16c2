-- | Whole files: in memory, and between a store and the local file system.
module Strait.Transfer
  ( readFile,
    writeFile,
    getFile,
    putFile,
  )
where

import Control.Exception (handle, onException, throwIO)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.List (dropWhileEnd, isPrefixOf)
import Data.Maybe (isJust)
import qualified Data.Set as Set
import Numeric (showHex)
import Strait.Connection (Request (..))
import Strait.Error
import Strait.File hiding (Mode (..))
import qualified Strait.File as Strait
import Strait.Session
import Strait.Tree
import Strait.Wire
import System.Directory (removeFile, renameFile)
import qualified System.Directory as Local
import System.FilePath (takeDirectory, takeFileName, (</>))
import qualified System.IO as Local
import Prelude hiding (readFile, writeFile)

-- | A file's bytes.
readFile :: Client -> FilePath -> IO ByteString
readFile client path = withFile client path Strait.ReadMode hGetContents

-- | Makes a file of these bytes, or replaces one by it.
writeFile :: Client -> FilePath -> ByteString -> IO ()
writeFile client path content = withFile client path Strait.WriteMode (`hPut` content)

-- | Reads and writes by turns, until a read is empty.
copy :: Monad m => m ByteString -> (ByteString -> m ()) -> m ()
copy source target = do
  part <- source
  unless (B.null part) $ target part >> copy source target

pieceBytes :: Int
pieceBytes = 1024 * 1024

-- | Copies a remote file, the first path, to a local one, which appears only when it is complete.
getFile :: Client -> Existing -> FilePath -> FilePath -> IO ()
getFile client existing source target = do
  taken <- Local.doesPathExist target
  when (taken && existing == KeepExisting) $ throwIO (straitError AlreadyExists (Just target) "the local path is taken")
  temporary <- (takeDirectory target </>) . (".strait-get-" <>) <$> randomName
  withFile client source Strait.ReadMode $ \file -> do
    Local.withBinaryFile temporary Local.WriteMode (copy (hGet file pieceBytes) . B.hPut)
      `onException` removeIfThere temporary
    renameFile temporary target `onException` removeFile temporary
  where
    removeIfThere path = Local.doesFileExist path >>= \there -> when there (removeFile path)

-- | Copies a local file, the first path, to a remote one, which appears, or is replaced, only when it is complete. In a
-- directory the file gets its own name.
putFile :: Client -> Existing -> FilePath -> FilePath -> IO ()
putFile client existing source place = do
  given <- lookupInfo client place
  let isDirectory = maybe False infoIsDirectory
      target = if isDirectory given then dropWhileEnd (== '/') place <> "/" <> takeFileName source else place
      refuse kind = throwIO . straitError kind (Just target)
  there <- if isDirectory given then lookupInfo client target else pure given
  when (isJust there && existing == KeepExisting) $ refuse AlreadyExists "the path is taken"
  when (isDirectory there) $ refuse IsADirectory "the target is a directory"
  random <- randomName
  let temporary = dropWhileEnd (/= '/') target <> ".strait-put-" <> random
      -- Nobody knows the temporary name.
      rename failure
        | errorPath failure == Just temporary =
          failure {errorPath = Just target, errorMessage = replace temporary target (errorMessage failure)}
        | otherwise = failure
      remove = identified (Request (encodeText "removePath") [] [(4, text temporary)]) >>= tidy client
  handle (throwIO . rename) . (`onException` remove) $ do
    Local.withBinaryFile source Local.ReadMode $ \local ->
      withFile client temporary Strait.NewMode (copy (B.hGetSome local pieceBytes) . hPut)
    canReplace <- Set.member "rename_replace" . storeCapabilities <$> store client
    when (isJust there && not canReplace) $ removePath client target
    renamePath client (if canReplace then existing else KeepExisting) temporary target

randomName :: IO String
randomName = concatMap (\byte -> drop 1 (showHex (0x100 + fromIntegral byte :: Int) "")) . B.unpack <$> randomBytes 16

replace :: String -> String -> String -> String
replace _ _ "" = ""
replace old new whole@(first : rest)
  | old `isPrefixOf` whole = new <> replace old new (drop (length old) whole)
  | otherwise = first : replace old new rest
