package Strait::FS::Session;

# A login, its connection, and the one place that retries. States and times are those of docs/client-protocol.md.
# A Perl program makes one request at a time, so a session keeps one connection.

use v5.36;
use warnings FATAL => 'all';
use feature 'try';
no warnings 'experimental::try';

use List::Util   qw(min);
use Scalar::Util qw(blessed);
use Time::HiRes  qw(sleep);

use Strait::FS::Connection;
use Strait::FS::Error;
use Strait::FS::Wire qw(bool bytes i32);

use constant {
    ATTEMPTS        => 6,         # with the pauses they span 1.6 to 3.1 s: a gateway's restart
    FIRST_PAUSE_S   => 0.1,
    CONNECT_S       => 10,
    PARTING_S       => 2,         # for cleaning up, once the gateway has left a request unanswered
    PROTOCOL        => 1,         # ProtocolVersion of idl/dfs.thrift
    MAX_CHUNK_BYTES => 1 << 20,
    REQUEST_ID      => 2,
    IS_RETRY        => 3,
    ID_BYTES        => 16,
};

# %login: store, user, password, token. $tls: a hash, or undef. The first attach isn't repeated.
sub open ($class, $uri, $login, $tls, $timeout_s) {
    my %self = (uri => $uri, login => $login, tls => $tls, timeout => $timeout_s, token => $login->{token});
    my $self = bless { %self, owner => $$, silences => 0 }, $class;
    try { $self->_give_back($self->_connect($self->_deadline)) }
    catch ($failure) { die $failure unless _is_lost($failure); _unavailable($failure) }
    return $self;
}

sub user            ($self) { return $self->{user} }
sub token           ($self) { return $self->{token} }
sub store           ($self) { return $self->{store_info} }
sub max_chunk_bytes ($self) { return $self->{max_chunk_bytes} }

# If a handle has another one, the handle is gone.
sub incarnation ($self) { return $self->{incarnation} }

# A request that changes nothing.
sub query ($self, $method, $fields, $path = undef) { return $self->_call($method, $fields, $path, 0) }

# A request that changes something: it gets an id, the same in all its attempts.
sub change ($self, $method, $fields, $path = undef, $content = undef) {
    return $self->_call($method, bytes(REQUEST_ID, new_id()) . $fields, $path, 1, $content);
}

sub _call ($self, $method, $fields, $path, $changes, $content = undef) {
    my $deadline = $self->_deadline;
    my ($connect_by, $was_sent, $is_renewed);
    for (my $attempt = 1;; $attempt++) {
        my $is_connecting = 1;
        try {
            my $connection = $self->_borrow($connect_by // $deadline);
            $is_connecting = 0;
            my $retry = $changes && $was_sent ? bool(IS_RETRY, 1) : '';
            return $self->_exchange($connection, $method, $retry . $fields, $path, $deadline, $content);
        }
        catch ($failure) {
            my $kind = Strait::FS::Error::kind_of($failure);
            if (_is_lost($failure)) {
                # If no gateway accepts connections now, wait for one once.
                $connect_by //= min($deadline, now() + CONNECT_S);
                $was_sent ||= $failure->{sent};
                $self->_drop;
                my $pause = FIRST_PAUSE_S * 2**($attempt - 1) * (0.5 + rand() / 2);
                if ($attempt == ATTEMPTS || now() + $pause >= $connect_by) {
                    $self->{silences}++;
                    $was_sent && $changes ? _unknown($method, $path, $failure) : _unavailable($failure, $path);
                }
                _pause($pause);
            }
            elsif ($kind eq 'Unauthenticated' && !$is_renewed && !$is_connecting) {
                # The session idled out, or its gateway was replaced.
                $is_renewed = 1;
                $self->_drop;
                $attempt--;
            }
            else {
                $self->{silences}++ if $kind eq 'TimedOut';
                _unknown($method, $path, $failure) if $kind && $is_connecting && $was_sent && $changes;
                die $failure if $kind ne 'TimedOut';
                my $is_safe = !$changes && $failure->retry_safe;
                Strait::FS::Error->throw($kind, $failure->message, path => $path, retry_safe => $is_safe);
            }
        }
    }
}

# A request as it stands, sent once.
sub once ($self, $method, $fields, $path = undef, $deadline = $self->_deadline) {
    try { return $self->_exchange($self->_borrow($deadline), $method, $fields, $path, $deadline) }
    catch ($failure) { die $failure unless _is_lost($failure); _unavailable($failure, $path) }
}

# A request that only cleans up: after a silence it gets little time, after a second one none. Its errors aren't told.
sub tidy ($self, $method, $fields, $changes = 0) {
    return if $self->{is_closed} || $self->{silences} > 1;
    my $limit = $self->{silences} ? min($self->{timeout}, PARTING_S) : $self->{timeout};
    $fields .= bytes(REQUEST_ID, new_id()) if $changes;
    try { $self->once($method, $fields, undef, now() + $limit) }
    catch ($failure) {
        my $kind = Strait::FS::Error::kind_of($failure);
        die $failure if $kind eq '';
        $self->{silences}++ if $kind eq 'TimedOut';
    }
    return;
}

# Ends the session, in the process that opened it.
sub close ($self) {
    $self->tidy('closeSession', '') if $self->{owner} == $$ && defined $self->{incarnation};
    $self->_drop;
    $self->{is_closed} = 1;
}

sub DESTROY ($self) {
    local ($@, $!, $?);
    $self->close unless $self->{is_closed} || ${^GLOBAL_PHASE} eq 'DESTRUCT';
}

# The connection is kept if the reply is complete, be it an error.
sub _exchange ($self, $connection, $method, @request) {
    my $reply = $connection->call($method, @request);
    $self->_give_back($connection);
    return _result($reply);
}

sub _result ($reply) {
    my $error = $reply->struct(1) // return $reply->struct(0) // Strait::FS::Wire::no_fields();
    my $kind = Strait::FS::Error::kind_of_code($error->number(1));
    my %more = (path => $error->bytes(4), retry_safe => $error->number(5));
    Strait::FS::Error->throw($kind, $error->bytes(3) // '', %more);
}

sub _borrow ($self, $deadline) {
    Strait::FS::Error->throw('InvalidArgument', 'the client is closed') if $self->{is_closed};
    my $connection = delete $self->{idle};
    if ($connection && $self->{process} != $$) {
        $connection->leave;
        undef $connection;
    }
    return $connection if $connection && !$connection->is_stale;
    return $self->_connect($deadline);
}

sub _give_back ($self, $connection) {
    $self->{silences} = 0;
    @$self{qw(idle process)} = ($connection, $$) unless $self->{is_closed};
}

sub _drop ($self) { delete $self->{idle} }

# A connection that is attached to the session.
sub _connect ($self, $deadline) {
    my $connection = Strait::FS::Connection->open($self->{uri}, $self->{tls}, min($deadline, now() + CONNECT_S));
    if (defined($self->{login}{password} // $self->{login}{token}) && !$connection->is_tls && !$connection->is_local) {
        my $why = "a password or token isn't sent to another machine in the clear; connect with tls => 1";
        Strait::FS::Error->throw('Unauthenticated', $why);
    }
    try { $self->_attach($connection, $deadline) }
    catch ($failure) {
        die $failure unless _is_lost($failure);
        # The caller's own request wasn't sent.
        Strait::FS::Connection::Lost->throw($failure->{message}, 0);
    }
    return $connection;
}

sub _attach ($self, $connection, $deadline) {
    my $login = $self->{login};
    my $open = sub ($fields) {
        return _result($connection->call('openSession', i32(1, PROTOCOL) . $fields, undef, $deadline));
    };
    my $reply;
    if (defined $self->{token}) {
        try { $reply = $open->(bytes(5, $self->{token})) }
        catch ($failure) {
            # Without a token of the program's own: it ended, log in anew.
            die $failure if Strait::FS::Error::kind_of($failure) ne 'Unauthenticated' || defined $login->{token};
        }
    }
    $reply //= $open->(bytes(2, $login->{store}) . bytes(3, $login->{user}) . bytes(4, $login->{password}));
    $self->{token} = $reply->bytes(1) // $self->{token};
    $self->{user} = $reply->bytes(3) // '';
    $self->{incarnation} = $reply->number(7);
    if (my $store = $reply->struct(4)) {
        my %text = (name => $store->bytes(1) // '', uri => $store->bytes(2) // '');
        $self->{store_info} = { %text, capabilities => [$store->strings(3)] };
    }
    my $limits = $reply->struct(6);
    my $chunk = $limits ? $limits->number(1) : 0;
    $self->{max_chunk_bytes} = $chunk > 0 ? min($chunk, MAX_CHUNK_BYTES) : MAX_CHUNK_BYTES;
}

sub now () { return Strait::FS::Connection::now() }

# A signal doesn't shorten it.
sub _pause ($seconds) {
    my $until = now() + $seconds;
    while ((my $left = $until - now()) > 0) { sleep $left }
}

sub _deadline ($self) { return now() + $self->{timeout} }

sub _is_lost ($failure) { return blessed $failure && $failure->isa('Strait::FS::Connection::Lost') }

sub _unavailable ($lost, $path = undef) {
    Strait::FS::Error->throw('Unavailable', $lost->{message}, path => $path, retry_safe => 1);
}

# $why: what was lost, or an error.
sub _unknown ($method, $path, $why) {
    Strait::FS::Error->throw('OutcomeUnknown', "$method may have been executed: $why->{message}", path => $path);
}

# Not by rand: two processes after a fork would get the same.
sub new_id () {
    CORE::open my $random, '<:raw', '/dev/urandom' or Strait::FS::Error->throw_errno('/dev/urandom');
    sysread($random, my $id, ID_BYTES) == ID_BYTES or Strait::FS::Error->throw_errno('/dev/urandom');
    return $id;
}

1;
