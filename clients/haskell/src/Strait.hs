-- | The files of one store behind a Strait gateway. Paths are absolute within the store. Import this module qualified:
-- its names are those of "System.IO" and of the package @directory@.
--
-- > Strait.withClient "strait://127.0.0.1:9090/" Strait.defaultOptions $ \client -> do
-- >   Strait.withFile client "/logs/a" Strait.WriteMode (`Strait.hPut` "content")
-- >   Strait.readFile client "/logs/a" >>= ByteString.putStr
--
-- All functions throw 'StraitError', which is an 'IOError', too. Functions that read or write local files throw theirs.
-- Any number of threads can use a client.
module Strait
  ( -- * Connecting
    withClient,
    connect,
    close,
    Client,
    Options (..),
    defaultOptions,
    user,
    token,
    Store (..),
    store,

    -- * Open files
    module Strait.File,

    -- * Whole files
    module Strait.Transfer,

    -- * Names and attributes
    module Strait.Tree,

    -- * Errors
    StraitError (..),
    ErrorKind (..),
    toIOError,
    fromIOError,

    -- * Addresses
    Uri (..),
    parseUri,

    -- * Further types
    SeekMode (..),
  )
where

import Strait.Error
import Strait.File
import Strait.Session
import Strait.Transfer
import Strait.Tree
import Strait.Uri
import System.IO (SeekMode (..))
import Prelude ()
