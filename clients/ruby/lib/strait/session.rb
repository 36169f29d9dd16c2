# frozen_string_literal: true

require "securerandom"
require "strait/connection"

module Strait
  # A login, a pool of connections, and the one place that retries. States and times are those of
  # docs/client-protocol.md.
  class Session
    # With the pauses they span 1.6 to 3.1 s: a gateway's restart.
    ATTEMPTS = 6
    FIRST_PAUSE_S = 0.1
    CONNECT_TIMEOUT_S = 10
    # For a request that only cleans up, once the gateway has left a request unanswered.
    PARTING_S = 2
    MAX_IDLE = 8
    VERSION = 1
    MAX_CHUNK_BYTES = 1 << 20
    # How a session may be opened, beside the URI.
    Login = Struct.new(:store, :user, :password, :token, keyword_init: true)

    # `tls` is an OpenSSL::SSL::SSLContext, or nil; the timeout is in seconds.
    def initialize(uri, login, tls, timeout)
      @uri = uri
      @login = login
      @tls = tls
      @timeout = timeout
      @token = login.token
      @lock = Mutex.new
      @logged_in = ConditionVariable.new
      @logins = 0 # connections of an older login aren't pooled
      @silences = 0
      @owner = @process = Process.pid
      reset
      deadline = Deadline.in(timeout)
      give_back(reporting(:openSession, nil) { connect(deadline) })
    end

    attr_reader :user, :token, :store, :max_chunk_bytes, :incarnation, :uri

    # A request that changes nothing. `about` is the path that errors name. The reply also tells the incarnation of
    # the session; a handle is gone if the session has another one.
    def query(method, about: nil, **values)
      repeat(method, values, about, change: false)
    end

    # A request that changes something. It has an id, the same in all its attempts.
    def change(method, about: nil, **values)
      repeat(method, { request_id: SecureRandom.bytes(16), **values }, about, change: true)
    end

    # A request that is sent once.
    def once(method, about: nil, **values)
      deadline = Deadline.in(@timeout)
      about ||= values[:path]
      reporting(method, about) { exchange(borrow(deadline), method, values, about, deadline) }
    end

    # A request that only cleans up: after a silence it gets little time, after a second none. Its errors are dropped.
    def tidy(method, **values)
      return if @is_closed || @silences > 1

      deadline = Deadline.in(@silences.zero? ? @timeout : [@timeout, PARTING_S].min)
      exchange(borrow(deadline), method, values, nil, deadline)
    rescue Connection::Silent
      @silences += 1
    rescue Connection::Lost, Error
      nil
    end

    # As `tidy`, for a change.
    def tidy_change(method, **values)
      tidy(method, request_id: SecureRandom.bytes(16), **values)
    end

    # Fields by number as they stand, sent once: for tests.
    def raw(method, fields)
      deadline = Deadline.in(@timeout)
      reporting(method, nil) do
        use(borrow(deadline)) { |connection| connection.call(method, fields, deadline) }
      end
    end

    # The session of a forked child is its parent's, and stays.
    def close
      tidy(:closeSession) if @owner == Process.pid
      @lock.synchronize { @is_closed = true }
      drop_idle
    end

    # Without the password.
    def inspect
      "#<#{self.class} #{@uri}>"
    end

    private

    def repeat(method, values, about, change:)
      about ||= values[:path] || values[:source]
      deadline = connect_by = Deadline.in(@timeout)
      attempts = 0
      is_sent = is_renewed = false
      begin
        connection = nil
        connection = borrow(deadline.or(connect_by))
        exchange(connection, method, values, about, deadline)
      rescue Connection::Lost => e
        is_sent ||= !connection.nil?
        attempts += 1
        # If no gateway accepts connections now, wait for one once.
        connect_by = deadline.or_in(CONNECT_TIMEOUT_S) if attempts == 1
        drop_idle
        unless pause(attempts, connect_by)
          @silences += 1
          raise(change && is_sent ? unknown(method, about, e) : unavailable(about, e))
        end
        values = { **values, is_retry: true } if change && is_sent
        retry
      rescue Connection::Silent
        @silences += 1
        failure = timed_out(method, about, is_safe: !change || (connection.nil? && !is_sent))
        raise(change && is_sent && connection.nil? ? unknown(method, about, failure) : failure)
      rescue Error => e
        if e.is_a?(Unauthenticated) && connection && !is_renewed
          # The session has expired, or the gateway was replaced.
          is_renewed = true
          drop_idle
          retry
        end
        raise(change && is_sent && connection.nil? ? unknown(method, about, e) : e)
      end
    end

    # Whether there is another attempt, after a pause.
    def pause(attempts, connect_by)
      seconds = FIRST_PAUSE_S * (2**(attempts - 1)) * SecureRandom.random_number(0.5..1.0)
      return false if attempts == ATTEMPTS || seconds >= connect_by.left

      sleep(seconds)
      true
    end

    # Turns the connection's errors into the program's.
    def reporting(method, about)
      yield
    rescue Connection::Lost => e
      raise unavailable(about, e)
    rescue Connection::Silent
      @silences += 1
      raise timed_out(method, about, is_safe: true)
    end

    def unavailable(about, cause)
      Unavailable.new(cause.message, path: about, retry_safe: true)
    end

    def timed_out(method, about, is_safe:)
      TimedOut.new("#{method}: the gateway #{@uri.authority} gave no answer in time", path: about, retry_safe: is_safe)
    end

    def unknown(method, about, cause)
      OutcomeUnknown.new("#{method} may have been executed: #{cause.message}", path: about)
    end

    def exchange(connection, method, values, about, deadline)
      use(connection) do
        reply = Messages.reply(method, connection.call(method, Messages.request(method, values), deadline))
        { **reply, incarnation: connection.incarnation }
      rescue Error => e
        raise e if e.path || about.nil?

        raise e.class.new(e.message, path: about, retry_safe: e.retry_safe?)
      end
    end

    def use(connection)
      yield connection
    ensure
      give_back(connection)
    end

    def borrow(deadline)
      loop do
        connection = @lock.synchronize do
          raise InvalidArgument, "the client is closed" if @is_closed

          reset if @process != Process.pid
          @idle.pop
        end
        return connect(deadline) unless connection
        return connection unless connection.stale?

        connection.close
      end
    end

    # A forked child makes connections of its own.
    def reset
      @process = Process.pid
      @idle = []
      @is_logging_in = false
    end

    def give_back(connection)
      is_kept = @lock.synchronize do
        @silences = 0 unless connection.broken? # a whole reply has arrived
        fits = !@is_closed && !connection.broken? && connection.login == @logins && @idle.size < MAX_IDLE
        @idle.push(connection) if fits
      end
      connection.close unless is_kept
    end

    def drop_idle
      @lock.synchronize { @idle.slice!(0..) }.each(&:close)
    end

    # A connection that is attached to the session.
    def connect(deadline)
      connection = Connection.open(@uri, @tls, deadline.or_in(CONNECT_TIMEOUT_S))
      if (@login.password || @login.token) && !@tls && !connection.local?
        raise Unauthenticated, "a password or token isn't sent to another machine in the clear: pass tls: true"
      end

      attach(connection, deadline)
      connection
    rescue Connection::Lost => e
      connection&.close
      # It accepted the connection, and closed it.
      raise e unless connection && !@tls && !@is_answered

      raise Connection::Lost, "#{e.message}; if the gateway needs TLS, pass tls: true"
    rescue StandardError
      connection&.close
      raise
    end

    # By the session's token; if that has expired, by a new login.
    def attach(connection, deadline)
      loop do
        token, logins = @lock.synchronize { [@token, @logins] }
        reply = token && by_token(connection, token, deadline)
        return attached(connection, reply, logins) if reply

        alone(deadline) do
          # Another caller may have logged in meanwhile.
          next unless logins == @logins

          reply = connection.call(:openSession, opening(**@login.to_h, token: nil), deadline)
          return attached(connection, reply, logins + 1)
        end
      end
    end

    def by_token(connection, token, deadline)
      connection.call(:openSession, opening(token:), deadline)
    rescue Unauthenticated
      raise if @login.token || connection.broken?
    end

    def opening(**values)
      Messages.request(:openSession, { version: VERSION, **values })
    end

    # One login at a time; the others wait for it until their deadlines.
    def alone(deadline)
      @lock.synchronize do
        while @is_logging_in
          raise Connection::Silent if deadline.passed?

          @logged_in.wait(@lock, deadline.left)
        end
        @is_logging_in = true
      end
      begin
        yield
      ensure
        @lock.synchronize do
          @is_logging_in = false
          @logged_in.broadcast
        end
      end
    end

    def attached(connection, fields, logins)
      reply = Messages.reply(:openSession, fields)
      @lock.synchronize do
        connection.login = logins
        connection.incarnation = reply[:incarnation]
        return if logins < @logins # a newer login has replaced this one

        @logins = logins
        @token = reply[:token] || @token
        @user = reply[:user]
        @incarnation = reply[:incarnation]
        @store = reply[:store] || {}
        chunk = reply.dig(:limits, :max_chunk_bytes) || 0
        @max_chunk_bytes = chunk.positive? ? [chunk, MAX_CHUNK_BYTES].min : MAX_CHUNK_BYTES
        @is_answered = true
      end
    end
  end
end
