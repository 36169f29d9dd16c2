-- stream_file read|write HOST:PORT PATH MIB: as stream_file.cpp, with the client for Haskell.
module Main (main) where

import Control.Monad (replicateM_, void, when)
import qualified Data.ByteString as B
import qualified Strait
import System.Environment (getArgs)
import System.IO (BufferMode (..), hSetBuffering, stdout)

pieceBytes :: Int
pieceBytes = 1048576

main :: IO ()
main = do
  [action, gateway, path, mib] <- getArgs
  hSetBuffering stdout LineBuffering
  Strait.withClient gateway Strait.defaultOptions $ \client -> do
    putStrLn "ready"
    void getLine
    (if action == "read" then readFrom else writeTo) client path (read mib)
    putStrLn "done"

readFrom :: Strait.Client -> FilePath -> Int -> IO ()
readFrom client path mib = Strait.withFile client path Strait.ReadMode (count 0)
  where
    count bytes file = do
      piece <- Strait.hGet file pieceBytes
      if B.null piece
        then when (bytes /= mib * pieceBytes) $ fail ("another length: " <> show bytes)
        else let next = bytes + B.length piece in next `seq` count next file

writeTo :: Strait.Client -> FilePath -> Int -> IO ()
writeTo client path mib =
  Strait.withFile client path Strait.NewMode $ \file -> replicateM_ mib (Strait.hPut file piece)
  where
    piece = B.replicate pieceBytes 0
