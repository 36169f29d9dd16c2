use v5.36;
use warnings FATAL => 'all';

# Against gateways in other processes: hostile ones, and one that answers every request.

use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC);

use Strait::FS;
use Strait::FS::Wire qw(bytes i64);

use constant { TIMEOUT_S => 0.5, LIMIT_S => 10 };    # a busy machine may be slow

my @gateways;

# Serves each connection by $serve, in a process of its own, with its number from 1. Returns the address.
sub gateway ($serve) {
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "no port: $!";
    my $process = fork // die $!;
    if ($process) {
        push @gateways, $process;
        return '127.0.0.1:' . $listener->sockport;
    }
    local $SIG{CHLD} = 'IGNORE';
    local $SIG{PIPE} = 'IGNORE';
    for (my $number = 1;; $number++) {
        my $socket = $listener->accept // next;
        next if fork;
        $serve->($socket, $number);
        require POSIX;
        POSIX::_exit(0);
    }
}

END {
    my $status = $?;
    for my $process (@gateways) { kill TERM => $process; waitpid $process, 0 }
    $? = $status;
}

# A request's method and number; none at the end.
sub next_request ($socket) {
    read($socket, my $length, 4) or return;
    read $socket, my ($frame), unpack 'N', $length;
    return unpack 'x4 N/a N', $frame;
}

sub answer ($socket, $method, $number, $fields) {
    my $frame = pack('N N/a* N', 0x80010002, $method, $number) . "\x0c\0\0$fields\0\0";
    syswrite $socket, pack 'N/a*', $frame;
}

sub failure ($code) {
    my $began = clock_gettime(CLOCK_MONOTONIC);
    my $lived = eval { $code->(); 1 };
    cmp_ok(clock_gettime(CLOCK_MONOTONIC) - $began, '<', LIMIT_S, 'in time');
    return $lived ? 'it lived' : ref $@ ? $@->kind . ": $@" : $@;
}

sub hostile ($bytes) {
    return gateway(sub ($socket, $) { next_request($socket); syswrite $socket, $bytes });
}

my %hostile = (
    'a reply of 4294967295 bytes' => pack('N', 0xffffffff),
    'a reply of 16777217 bytes'   => pack('N', (16 << 20) + 1) . 'x' x 100,
    'it ended'                    => pack('N',    16 << 20) . 'x' x 100,
    'no reply of Thrift'          => pack('N/a*', 'x' x 16 . "\0" x 100),
    'wrong length'                => pack('N/a*', ''),
    'want TLS'                    => '',
);
for my $says (sort keys %hostile) {
    my $address = hostile($hostile{$says});
    my $failure = failure(sub { Strait::FS->connect($address) });
    like($failure, qr/^Unavailable: .*\Q$address\E.*\Q$says\E/, $says);
}

my %slow = (
    'no answer'        => sub ($socket, $) { sleep LIMIT_S },
    'a byte at a time' => sub ($socket, $) {
        next_request($socket);
        syswrite $socket, pack 'N', 1000;
        for (1 .. 100 * LIMIT_S) { syswrite $socket, 'x'; sleep 0.01 }
    },
);
for my $what (sort keys %slow) {
    my $address = gateway($slow{$what});
    my $failure = failure(sub { Strait::FS->connect($address, timeout => TIMEOUT_S) });
    like($failure, qr/^TimedOut: openSession: .*\Q$address\E/, $what);
}

# It tells the number of the connection as the length of each file, cuts the connection of each
# truncate, and is silent on a checksum.
my $address = gateway(
    sub ($socket, $connection) {
        while (my ($method, $number) = next_request($socket)) {
            last if $method eq 'truncateFile';
            sleep LIMIT_S if $method eq 'getChecksum';
            my $fields =
                $method eq 'getFileInfo' ? "\x0c\0\1" . i64(3, $connection) . "\0" : bytes(1, 'token') . i64(7, 1);
            answer($socket, $method, $number, $fields);
        }
    }
);
my $client = Strait::FS->connect($address);
is($client->stat('/f')->size, 1, 'the connection of the login serves requests');
my $child = fork // die $!;
if (!$child) {
    my $number = eval { $client->stat('/f')->size } // 0;
    undef $client;
    require POSIX;
    POSIX::_exit($number);
}
waitpid $child, 0;
is($? >> 8,                   2, 'a child has its own connection');
is($client->stat('/f')->size, 1, 'the parent goes on with its own');

{
    local $SIG{ALRM} = sub { };
    Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), 0.01, 0.01);
    like(
        failure(sub { $client->truncate('/f', 1) }),
        qr/^OutcomeUnknown: .*truncateFile/,
        'a change that is cut, with signals'
    );
    Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), 0);
}
is($client->stat('/f')->size, 8, 'it was tried six times');

is(
    failure(
        sub {
            local $SIG{ALRM} = sub { die "the program's\n" };
            Time::HiRes::alarm(0.1);
            $client->checksum('/f');
        }
    ),
    "the program's\n",
    'a signal can end a call'
);
is($client->stat('/f')->size, 9, 'the client stays usable');

{
    no warnings 'redefine';
    local *Strait::FS::Connection::is_local = sub ($) { return 0 };
    my %secrets = (password => [user => 'me', password => 'secret'], token => [token => 'secret']);
    for my $secret (sort keys %secrets) {
        my $failure = failure(sub { Strait::FS->connect($address, @{ $secrets{$secret} }) });
        like($failure, qr/^Unauthenticated: .*in the clear/, "a $secret isn't sent in the clear");
    }
}

like(failure(sub { Strait::FS->connect('127.0.0.1:1', tsl => 1) }), qr/^InvalidArgument: .*tsl/, 'an unknown option');
like(failure(sub { Strait::FS->connect("$address/a") }),            qr/^InvalidArgument: /, 'an address with a path');
undef $client;

done_testing;
