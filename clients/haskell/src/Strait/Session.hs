{-# LANGUAGE OverloadedStrings #-}

-- | A login, a pool of connections, and the one place that retries. States and times are those of
-- @docs/client-protocol.md@.
module Strait.Session
  ( Client,
    Options (..),
    defaultOptions,
    Store (..),
    connect,
    close,
    withClient,
    user,
    token,
    store,
    incarnation,
    chunkBytes,

    -- * Requests
    query,
    change,
    once,
    tidy,
    identified,
    randomBytes,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar (MVar, newMVar, withMVar)
import Control.Exception (bracket, handle, handleJust, onException, throwIO)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Char (GeneralCategory (Surrogate), generalCategory)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef, writeIORef)
import Data.Int (Int64)
import Data.List (find)
import Data.Maybe (fromMaybe, isJust, isNothing)
import qualified Data.Set as Set
import Strait.Connection (Connection, Deadline, Lost (..), Request (..), about, deadlineIn, leftMs, orIn)
import qualified Strait.Connection as Connection
import Strait.Error
import Strait.Uri
import Strait.Wire
import System.IO (IOMode (ReadMode), withBinaryFile)

-- | How to connect.
data Options = Options
  { -- | A store of the gateway. Nothing: that of the address, or else the gateway's default one.
    optionStore :: Maybe String,
    optionUser :: Maybe String,
    optionPassword :: Maybe String,
    -- | Of an earlier session, in place of user and password.
    optionToken :: Maybe String,
    -- | Milliseconds. It bounds each request as a whole: connecting, all attempts, and the complete reply.
    optionTimeoutMs :: Int
  }

-- | The default store, without a login; 120 s for a request.
defaultOptions :: Options
defaultOptions = Options Nothing Nothing Nothing Nothing 120000

-- | A session's store.
data Store = Store
  { storeName :: String,
    storeUri :: String,
    -- | Names of what it can do, such as @rename_replace@.
    storeCapabilities :: Set.Set String
  }
  deriving (Eq, Show)

-- | A session with a gateway, for any number of threads.
data Client = Client
  { address :: Uri,
    options :: Options,
    -- | One connection attaches at a time, so that callers share a login.
    attaching :: MVar (),
    login :: IORef Login,
    pool :: IORef Pool,
    -- | How many requests the gateway has left unanswered since its latest answer.
    silences :: IORef Int
  }

-- | What the gateway said when a connection attached last.
data Login = Login
  { -- | Connections of an older login aren't pooled.
    loginNumber :: Int,
    loginToken :: Maybe ByteString,
    loginUser :: String,
    loginIncarnation :: Int64,
    loginStore :: Store,
    loginChunkBytes :: Int
  }

data Pool = Open [Attached] | Closed

-- | A connection, and the number of its login.
data Attached = Attached Int Connection

-- | With the pauses, they span 1.6 to 3.1 s: a gateway's restart.
maxAttempts, firstPauseMs :: Int
maxAttempts = 6
firstPauseMs = 100

connectTimeoutMs :: Int
connectTimeoutMs = 10000

-- | For a request that only cleans up, once the gateway has left a request unanswered: the program waits for it.
partingMs :: Int
partingMs = 2000

-- | A program rarely has more concurrent callers.
maxIdle :: Int
maxIdle = 8

-- | Opens a session. The address is @strait:\/\/HOST:PORT\/@ or @HOST:PORT@; @\/\@NAME@ after it names a store.
connect :: String -> Options -> IO Client
connect place given = do
  uri <- either throwIO pure (parseAddress place)
  case (uriStore uri, optionStore given) of
    (Just one, Just other)
      | one /= other ->
        throwIO (straitError InvalidArgument Nothing ("two stores are named: " <> one <> " and " <> other))
    _ -> pure ()
  client <- Client uri given <$> newMVar () <*> newIORef unknown <*> newIORef (Open []) <*> newIORef 0
  deadline <- requestDeadline client
  handle (throwIO . unavailable Nothing . withHint) $ attach client deadline >>= giveBack client
  pure client
  where
    withHint lost
      | wasSent lost = lost {why = why lost <> "; if the gateway serves TLS only, this client can't use it"}
      | otherwise = lost
    unknown = Login 0 (encodeText <$> optionToken given) "" 0 (Store "" "" Set.empty) maxChunkBytes

-- | Ends the session. Close its files first.
close :: Client -> IO ()
close client = do
  tidy client (Request "closeSession" [] [])
  atomicModifyIORef' (pool client) (\before -> (Closed, before)) >>= closeAll

-- | Opens a session for an action.
withClient :: String -> Options -> (Client -> IO a) -> IO a
withClient place given = bracket (connect place given) close

-- | The login's name; empty without a login.
user :: Client -> IO String
user = fmap loginUser . readIORef . login

-- | Stands for the login until it expires; keep it secret.
token :: Client -> IO (Maybe String)
token = fmap (fmap decodeText . loginToken) . readIORef . login

-- | The store that the session uses.
store :: Client -> IO Store
store = fmap loginStore . readIORef . login

-- | If a handle has another one, the handle is gone.
incarnation :: Client -> IO Int64
incarnation = fmap loginIncarnation . readIORef . login

-- | Most bytes of one request that reads or writes.
chunkBytes :: Client -> IO Int
chunkBytes = fmap loginChunkBytes . readIORef . login

maxChunkBytes :: Int
maxChunkBytes = 1024 * 1024

requestDeadline :: Client -> IO Deadline
requestDeadline = deadlineIn . optionTimeoutMs . options

-- Requests

-- | A request that changes nothing.
query :: Client -> Request -> IO Fields
query client = persist client False

-- | A request that changes something. It gets an id, the same in all its attempts.
change :: Client -> Request -> IO Fields
change client request = identified request >>= persist client True

-- | With an id.
identified :: Request -> IO Request
identified request = (\new -> request {fields = (2, Bytes new) : fields request}) <$> randomBytes 16

-- | How one attempt ended.
data Outcome
  = Answered Fields
  | Cut Lost
  | -- | By the gateway, or by its silence.
    Refused StraitError
  | -- | The same, before the request itself was sent.
    NotAttached StraitError

attempt :: Client -> Deadline -> Deadline -> Request -> IO Outcome
attempt client deadline connecting request =
  handle (pure . Cut) . handle (pure . NotAttached) $
    withConnection client (min deadline connecting) $ \connection ->
      handle (pure . Refused) (Answered <$> Connection.call connection request deadline)

data Progress = Progress
  { attempts :: Int,
    -- | When a connection must be there again; set by the first cut.
    connectBy :: Maybe Deadline,
    -- | An attempt may have arrived.
    sent :: Bool,
    renewed :: Bool
  }

persist :: Client -> Bool -> Request -> IO Fields
persist client changes request = do
  checkPaths request
  deadline <- requestDeadline client
  let go progress = do
        let repeated = request {fields = fields request <> [(3, Bool True) | changes && sent progress]} -- is_retry
        outcome <- attempt client deadline (fromMaybe deadline (connectBy progress)) repeated
        case outcome of
          Answered reply -> pure reply
          Cut lost -> afterCut progress {sent = sent progress || wasSent lost} lost
          Refused refusal
            | errorKind refusal == Unauthenticated && not (renewed progress) -> do
              -- The session idled out, or its gateway was replaced.
              dropIdle client
              go progress {renewed = True}
            | otherwise -> do
              note refusal
              throwIO (if errorKind refusal == TimedOut && changes then refusal {errorRetrySafe = False} else refusal)
          NotAttached refusal -> do
            note refusal
            throwIO $
              if changes && sent progress
                then outcomeUnknown request (errorMessage refusal)
                else refusal {errorPath = about request, errorMessage = named request (errorMessage refusal)}
      afterCut progress lost = do
        dropIdle client
        limit <- maybe (deadline `orIn` connectTimeoutMs) pure (connectBy progress)
        pause <- jittered (firstPauseMs * 2 ^ (attempts progress - 1))
        left <- leftMs limit
        when (attempts progress == maxAttempts || pause >= left) $ do
          noteSilence client
          throwIO $
            if changes && sent progress
              then outcomeUnknown request (why lost)
              else unavailable (about request) lost
        threadDelay (pause * 1000)
        go progress {attempts = attempts progress + 1, connectBy = Just limit}
      note refusal = when (errorKind refusal == TimedOut) $ noteSilence client
  go (Progress 1 Nothing False False)

-- | A request as it stands, sent once.
once :: Client -> Request -> IO Fields
once client request = requestDeadline client >>= onceBy client request

onceBy :: Client -> Request -> Deadline -> IO Fields
onceBy client request deadline = do
  checkPaths request
  handle (throwIO . unavailable (about request)) $
    withConnection client deadline $ \connection -> Connection.call connection request deadline

-- | Half of a UTF-16 pair, or a byte that GHC couldn't decode in the locale's encoding, has no UTF-8.
checkPaths :: Request -> IO ()
checkPaths request = forM_ (find (any ((== Surrogate) . generalCategory)) (paths request)) $ \path ->
  throwIO (straitError InvalidArgument (Just path) "the path isn't Unicode text, and the gateway takes nothing else")

-- | A request that only cleans up, whose errors don't matter: after a silence it gets little time, after a second none.
tidy :: Client -> Request -> IO ()
tidy client request = do
  silent <- readIORef (silences client)
  unless (silent > 1) $ do
    let timeoutMs = optionTimeoutMs (options client)
    deadline <- deadlineIn (if silent == 0 then timeoutMs else min timeoutMs partingMs)
    handle ignore (void (onceBy client request deadline))
  where
    ignore failure = when (errorKind failure == TimedOut) $ noteSilence client

noteSilence :: Client -> IO ()
noteSilence client = atomicModifyIORef' (silences client) (\count -> (count + 1, ()))

unavailable :: Maybe FilePath -> Lost -> StraitError
unavailable path lost = StraitError Unavailable path (why lost) True

outcomeUnknown :: Request -> String -> StraitError
outcomeUnknown request cause =
  straitError OutcomeUnknown (about request) (decodeText (method request) <> " may have been executed: " <> cause)

named :: Request -> String -> String
named request message = decodeText (method request) <> ": " <> message

-- | This many random bytes that nobody can predict.
randomBytes :: Int -> IO ByteString
randomBytes count = withBinaryFile "/dev/urandom" ReadMode (`B.hGet` count)

-- | The pause times a factor from one half to one, so that the clients of one gateway don't return at the same moment.
jittered :: Int -> IO Int
jittered pause = do
  chance <- B.head <$> randomBytes 1
  pure (pause * (255 + fromIntegral chance) `div` 510)

-- Connections

withConnection :: Client -> Deadline -> (Connection -> IO a) -> IO a
withConnection client connecting action =
  bracket (borrow client connecting) (giveBack client) (\(Attached _ connection) -> action connection)

-- | An idle connection that the gateway hasn't closed, or a new one.
borrow :: Client -> Deadline -> IO Attached
borrow client deadline = do
  taken <- atomicModifyIORef' (pool client) $ \before -> case before of
    Open (first : others) -> (Open others, Just (Just first))
    Open [] -> (before, Just Nothing)
    Closed -> (before, Nothing)
  case taken of
    Nothing -> throwIO (straitError InvalidArgument Nothing "the client is closed")
    -- What a new connection loses isn't the caller's own request.
    Just Nothing -> handle (\lost -> throwIO lost {wasSent = False}) (attach client deadline)
    Just (Just idle@(Attached _ connection)) -> do
      stale <- Connection.isStale connection
      if stale then Connection.close connection >> borrow client deadline else pure idle

giveBack :: Client -> Attached -> IO ()
giveBack client used@(Attached number connection) = do
  broken <- Connection.isBroken connection
  unless broken $ atomicModifyIORef' (silences client) (const (0, ())) -- a whole reply has arrived
  current <- loginNumber <$> readIORef (login client)
  kept <- atomicModifyIORef' (pool client) $ \before -> case before of
    Open idle | not broken && number == current && length idle < maxIdle -> (Open (used : idle), True)
    _ -> (before, False)
  unless kept $ Connection.close connection

-- | After a cut: the idle connections led to the same gateway.
dropIdle :: Client -> IO ()
dropIdle client = atomicModifyIORef' (pool client) empty >>= closeAll
  where
    empty Closed = (Closed, Closed)
    empty before = (Open [], before)

closeAll :: Pool -> IO ()
closeAll Closed = pure ()
closeAll (Open idle) = mapM_ (\(Attached _ connection) -> Connection.close connection) idle

-- | A new connection, attached to the session.
attach :: Client -> Deadline -> IO Attached
attach client deadline = do
  connecting <- deadline `orIn` connectTimeoutMs
  connection <- Connection.open (uriHost place) (uriPort place) (authority place) connecting
  (`onException` Connection.close connection) $ do
    when (hasSecret && not (Connection.isLocal connection)) $
      throwIO . straitError Unauthenticated Nothing $
        "a password or token isn't sent to another machine in clear text, and this client has no TLS: "
          <> "use a gateway on this host"
    withMVar (attaching client) $ \() -> do
      before <- readIORef (login client)
      opened <- maybe (pure Nothing) (resume connection) (loginToken before)
      after <- maybe (logIn connection before) (pure . learn before) opened
      writeIORef (login client) after
      pure (Attached (loginNumber after) connection)
  where
    place = address client
    given = options client
    hasSecret = isJust (optionPassword given) || isJust (optionToken given)
    openSession connection more =
      Connection.call connection (Request "openSession" [] ((1, I32 1) : more)) deadline
    -- Nothing if the session has ended, and the program can log in again.
    resume connection known =
      handleJust ended (\() -> pure Nothing) (Just <$> openSession connection [(5, Bytes known)])
    ended failure
      | errorKind failure == Unauthenticated && isNothing (optionToken given) = Just ()
      | otherwise = Nothing
    logIn connection before = do
      let chosen = uriStore place <|> optionStore given
      reply <-
        openSession connection $
          optional 2 text chosen <> optional 3 text (optionUser given) <> optional 4 text (optionPassword given)
      pure (learn before {loginNumber = loginNumber before + 1} reply)

learn :: Login -> Fields -> Login
learn before reply =
  before
    { loginToken = bytes 1 reply <|> loginToken before,
      loginUser = fromMaybe "" (string 3 reply),
      loginIncarnation = fromMaybe 0 (integer 7 reply),
      loginStore =
        Store
          { storeName = fromMaybe "" (string 1 info),
            storeUri = fromMaybe "" (string 2 info),
            storeCapabilities = Set.fromList [decodeText name | Bytes name <- list 3 info]
          },
      loginChunkBytes = case struct 6 reply >>= integer 1 of
        Just most | most > 0 -> fromIntegral (min most (fromIntegral maxChunkBytes))
        _ -> maxChunkBytes
    }
  where
    info = fromMaybe [] (struct 4 reply)
