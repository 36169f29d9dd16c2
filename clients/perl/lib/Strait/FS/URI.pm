package Strait::FS::URI;

use v5.36;
use warnings FATAL => 'all';

use Strait::FS::Error;

use constant {
    SCHEME         => 'strait://',
    DEFAULT_PORT   => 9090,
    MAX_PORT       => 65535,
    MAX_NAME_BYTES => 255,           # as POSIX's NAME_MAX
};

my $AUTHORITY = qr{\A (?: \[ (?<host> [^\]]+ ) \] | (?<host> [^\s:?\#\[\]]+ ) ) (?: : (?<port> [0-9]{0,5} ) )? \z}xa;

# The parts of strait://HOST:PORT/@STORE/PATH: host, port, store (undef for the default one) and path. Nothing is
# decoded. A first component @NAME names a store; one that begins with @@ is a directory with one @ less.
sub parse ($class, $text) {
    utf8::encode($text) if $text =~ /[^\x00-\xff]/;
    if (index($text, SCHEME) != 0) {
        my $shown = $text =~ /@/ ? 'it' : qq{"$text"};    # with an @, it may hold a password
        _wrong("$shown doesn't begin with " . SCHEME);
    }
    my ($authority, @names) = split m{/}, substr $text, length SCHEME;
    $authority //= '';
    _wrong('an address names no user; the options take user and password') if $authority =~ /@/;
    _wrong(qq{"$authority" is no HOST:PORT}) unless $authority =~ $AUTHORITY;
    my ($host, $digits) = ($+{host}, $+{port} // '');
    my $port = $digits eq '' ? DEFAULT_PORT : $digits + 0;
    _wrong(qq{"$authority" has no port from 1 to } . MAX_PORT) if $port < 1 || $port > MAX_PORT;

    @names = grep { $_ ne '' } @names;
    my $store;
    if (@names && $names[0] =~ /^@@/) {
        substr $names[0], 0, 1, '';
    }
    elsif (@names && $names[0] =~ /^@/) {
        $store = substr shift @names, 1;
        _wrong(qq{"$text": a store's name follows the @, as in /\@lab; a directory called @ is /@@}) if $store eq '';
    }
    for my $name (@names, $store // ()) {
        next if $name ne '.' && $name ne '..' && $name !~ /\0/ && length $name <= MAX_NAME_BYTES;
        _wrong(qq{"$text" has a name that is . or .., holds a NUL byte, or has more than } . MAX_NAME_BYTES . ' bytes');
    }
    return bless { host => $host, port => $port, store => $store, path => '/' . join '/', @names }, $class;
}

# The address of a gateway or of its store, also without the scheme.
sub parse_address ($class, $address) {
    my $uri = $class->parse($address =~ m{://} ? $address : SCHEME . $address);
    _wrong("an address ends with the gateway or its store, and has no path: $address") if $uri->path ne '/';
    return $uri;
}

sub _wrong ($why) {
    Strait::FS::Error->throw('InvalidArgument', "not the address of a gateway, strait://host:port/\@store: $why");
}

sub host  ($self) { return $self->{host} }
sub port  ($self) { return $self->{port} }
sub store ($self) { return $self->{store} }
sub path  ($self) { return $self->{path} }

# HOST:PORT, for messages.
sub address ($self) {
    my $host = $self->{host} =~ /:/ ? "[$self->{host}]" : $self->{host};
    return "$host:$self->{port}";
}

1;
