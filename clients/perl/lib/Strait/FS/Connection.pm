package Strait::FS::Connection;

use v5.36;
use warnings FATAL => 'all';
use feature 'try';
no warnings 'experimental::try';

use Errno qw(EAGAIN EINPROGRESS EINTR EWOULDBLOCK);
use IO::Select;
use IO::Socket;
use List::Util   qw(min);
use Scalar::Util qw(blessed);
use Socket       qw(:addrinfo AF_INET AF_INET6 IPPROTO_TCP SOCK_STREAM SOL_SOCKET SO_ERROR TCP_NODELAY
    unpack_sockaddr_in unpack_sockaddr_in6);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use Strait::FS::Error;
use Strait::FS::Wire qw(i32 request reply MAX_FRAME);

use constant {
    DEADLINE_FIELD => 15,           # deadline_ms, which each request has
    MAX_I32        => 2**31 - 1,
    PIECE_BYTES    => 1 << 18,      # of memory, ahead of the bytes that have arrived
    LATE           => 'late',
    ENDED          => 'it ended',
};

# Either side rejects the other's certificate, in OpenSSL's words.
my $REJECTION = qr/certificate|hostname|unknown ca/i;

# The reason why a connection broke. If `sent`, the request may have arrived.
package Strait::FS::Connection::Lost {
    sub throw ($class, $message, $sent) { die bless { message => $message, sent => $sent }, $class }
}

# Seconds of a clock that nobody sets. A deadline is a time of this clock.
sub now () { return clock_gettime(CLOCK_MONOTONIC) }

# A socket, with TLS if $tls (a hash of IO::Socket::SSL's options) is given.
sub open ($class, $uri, $tls, $deadline) {
    my $self = bless { address => $uri->address, number => 0 }, $class;
    my %hints = (socktype => SOCK_STREAM, protocol => IPPROTO_TCP);
    my ($why, @found) = getaddrinfo($uri->host, $uri->port, \%hints);
    while (my $one = shift @found) {
        # Each address gets a share of the time.
        my $limit = now() + ($deadline - now()) / (1 + @found);
        try {
            $self->_connect($one, $limit);
            $self->_start_tls($uri->host, $tls, $deadline) if $tls;
            return $self;
        }
        catch ($failure) {
            die $failure unless _is_broken($failure);
            $why = $failure->{why};
        }
    }
    Strait::FS::Connection::Lost->throw("no gateway at $self->{address}: $why", 0);
}

sub _connect ($self, $address, $limit) {
    my $socket = IO::Socket->new;
    $socket->socket(@$address{qw(family socktype protocol)}) or Strait::FS::Broken->throw("$!");
    $socket->blocking(0);
    $self->{socket} = $socket;
    if (!connect $socket, $address->{addr}) {
        Strait::FS::Broken->throw("$!") unless $!{EINPROGRESS};
        $self->_wait('can_write', $limit) or Strait::FS::Broken->throw("it doesn't accept the connection");
        $! = $socket->sockopt(SO_ERROR);
        Strait::FS::Broken->throw("$!") if $!;
    }
    setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;
}

sub _start_tls ($self, $host, $tls, $deadline) {
    eval { require IO::Socket::SSL; 1 }
        or Strait::FS::Error->throw('Unsupported', 'TLS takes the module IO::Socket::SSL (libio-socket-ssl-perl)');
    my %options = (SSL_verifycn_scheme => 'http', SSL_verifycn_name => $host, SSL_hostname => $host, %$tls);
    delete $options{SSL_hostname} if $options{SSL_hostname} =~ /\A[0-9.]+\z|:/;    # names only
    my $socket = eval { IO::Socket::SSL->start_SSL($self->{socket}, %options, SSL_startHandshake => 0) };
    if (!$socket) {
        my $why = ($@ || $IO::Socket::SSL::SSL_ERROR) =~ s/ at \S+ line \d+\.\n//r;
        Strait::FS::Error->throw('InvalidArgument', "the options of TLS: $why");
    }
    until ($socket->connect_SSL) {
        my $why = "$IO::Socket::SSL::SSL_ERROR";
        my $wanted = $self->_tls_wants;
        if (!$wanted) {
            Strait::FS::Error->throw('Unauthenticated', "$self->{address}: $why") if $why =~ $REJECTION;
            Strait::FS::Connection::Lost->throw("no TLS with $self->{address}: $why", 0);
        }
        next if $self->_wait($wanted, $deadline);
        my $message = "the gateway $self->{address} didn't complete the TLS handshake";
        Strait::FS::Error->throw('TimedOut', $message, retry_safe => 1);
    }
    $self->{tls} = 1;
}

# Whether the peer is on this machine.
sub is_local ($self) {
    my $name = getpeername $self->{socket} or return 0;
    my $family = IO::Socket::sockaddr_family($name);
    return (unpack_sockaddr_in($name))[1] =~ /\A\x7f/ if $family == AF_INET;
    return (unpack_sockaddr_in6($name))[1] =~ /\A(?:\0{15}\x01|\0{10}\xff\xff\x7f...)\z/s if $family == AF_INET6;
    return 0;
}

sub is_tls ($self) { return $self->{tls} }

# Whether the gateway has closed it while it was idle: it sends nothing unasked.
sub is_stale ($self) { return IO::Select->new($self->{socket})->can_read(0) }

# One request, and the fields of its reply. Whatever it throws, the connection isn't fit for another request.
sub call ($self, $method, $fields, $path, $deadline, $content = undef) {
    my $left_ms = int(1000 * ($deadline - now()));
    $fields = i32(DEADLINE_FIELD, $left_ms < 1 ? 1 : min($left_ms, MAX_I32)) . $fields;
    my $number = ++$self->{number};
    try {
        $self->_send($_, $deadline) for request($method, $number, $fields, $content);
        my $length = unpack 'N', $self->_receive(4, $deadline);
        Strait::FS::Broken->throw("a reply of $length bytes") if $length > MAX_FRAME;
        my $reply = reply($self->_receive($length, $deadline), $method, $number);
        $self->{answered} = 1;
        return $reply;
    }
    catch ($failure) {
        die $failure unless _is_broken($failure);
        my ($why, $address) = ($failure->{why}, $self->{address});
        if ($why eq LATE) {
            my $message = "$method: the gateway $address gave no answer in time";
            Strait::FS::Error->throw('TimedOut', $message, path => $path, retry_safe => 1);
        }
        my $is_first = $why eq ENDED && !$self->{answered} && !$self->{tls};
        $why .= ' before its first answer; does the gateway want TLS?' if $is_first;
        Strait::FS::Connection::Lost->throw("the connection to $address broke: $why", 1);
    }
}

sub _send ($self, $bytes, $deadline) {
    local $SIG{PIPE} = 'IGNORE';
    for (my $at = 0; $at < length $$bytes;) {
        Strait::FS::Broken->throw(LATE) if now() >= $deadline;
        my $count = $self->{socket}->syswrite($$bytes, length($$bytes) - $at, $at);
        if (defined $count) { $at += $count }
        else                { $self->_until_ready('can_write', $deadline) }
    }
}

sub _receive ($self, $length, $deadline) {
    my $bytes = '';
    while ((my $left = $length - length $bytes) > 0) {
        Strait::FS::Broken->throw(LATE) if now() >= $deadline;
        my $count = $self->{socket}->sysread($bytes, min($left, PIECE_BYTES), length $bytes);
        $self->_until_ready('can_read', $deadline) unless defined $count;
        $self->_fail($self->_why_ended) if defined $count && $count == 0;
    }
    return $bytes;
}

# After an operation that would have blocked. It dies after any other error.
sub _until_ready ($self, $direction, $deadline) {
    return if $!{EINTR};
    my $wanted = $self->{tls} ? $self->_tls_wants : ($!{EAGAIN} || $!{EWOULDBLOCK}) && $direction;
    $self->_fail($self->{tls} ? "$IO::Socket::SSL::SSL_ERROR" : "$!") unless $wanted;
    $self->_wait($wanted, $deadline) or Strait::FS::Broken->throw(LATE);
}

# IO::Socket::SSL takes an alert for an end; OpenSSL still has it.
sub _why_ended ($self) {
    my $code = $self->{tls} ? Net::SSLeay::ERR_get_error() : 0;
    return $code ? Net::SSLeay::ERR_error_string($code) : ENDED;
}

# In TLS 1.3 the gateway rejects the client's certificate in place of the first reply.
sub _fail ($self, $why) {
    Strait::FS::Error->throw('Unauthenticated', "$self->{address}: $why") if $self->{tls} && $why =~ $REJECTION;
    Strait::FS::Broken->throw($why);
}

sub _is_broken ($failure) { return blessed $failure && $failure->isa('Strait::FS::Broken') }

# The event for which TLS waits.
sub _tls_wants ($self) {
    return 'can_read' if $IO::Socket::SSL::SSL_ERROR == IO::Socket::SSL::SSL_WANT_READ();
    return 'can_write' if $IO::Socket::SSL::SSL_ERROR == IO::Socket::SSL::SSL_WANT_WRITE();
    return;
}

# False once the deadline has passed.
sub _wait ($self, $direction, $deadline) {
    my $select = IO::Select->new($self->{socket});
    while ((my $left = $deadline - now()) > 0) {
        return 1 if $select->$direction($left);
    }
    return 0;
}

# Forgets it in a process that was forked: the parent still uses it.
sub leave ($self) {
    $self->{socket}->close(SSL_no_shutdown => 1) if $self->{tls};
    delete $self->{socket};
}

1;
