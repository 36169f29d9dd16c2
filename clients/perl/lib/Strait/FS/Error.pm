package Strait::FS::Error;

use v5.36;
use warnings FATAL => 'all';

use Errno        qw(:POSIX);
use Scalar::Util qw(blessed);

use overload '""' => 'as_string', bool => sub { 1 }, fallback => 1;

# The kinds and their codes are those of idl/dfs.thrift, from 1 on. Each has a class and an errno.
my @KINDS = (
    [NotFound         => ENOENT],
    [AlreadyExists    => EEXIST],
    [NotADirectory    => ENOTDIR],
    [IsADirectory     => EISDIR],
    [NotEmpty         => ENOTEMPTY],
    [PermissionDenied => EACCES],
    [Unauthenticated  => EPERM],
    [InvalidArgument  => EINVAL],
    [Unsupported      => EOPNOTSUPP],
    [Busy             => EBUSY],
    [NoSpace          => ENOSPC],
    [TimedOut         => ETIMEDOUT],
    [Unavailable      => EHOSTUNREACH],
    [Corrupt          => EIO],
    [OutcomeUnknown   => EIO],
    [Internal         => EIO],
);
my %ERRNO = map { @$_ } @KINDS;
# Of local files, which put and get use.
my %KIND_OF_ERRNO = (EPERM, 'PermissionDenied', map { reverse @$_ } grep { $_->[1] != EPERM } reverse @KINDS);

for my $kind (keys %ERRNO) {
    no strict 'refs';
    @{ __PACKAGE__ . "::${kind}::ISA" } = __PACKAGE__;
}

# new($kind, $message, path => $path, retry_safe => $bool)
sub new ($class, $kind, $message, %more) {
    my $path = $more{path};
    my $text = !defined $path || $path eq '' || index($message, $path) >= 0 ? $message : "$path: $message";
    my %error = (kind => $kind, message => $text, path => $path, retry_safe => !!$more{retry_safe});
    @error{qw(file line)} = _caller();
    return bless \%error, "${class}::$kind";
}

sub throw ($class, @error) { $class->rethrow($class->new(@error)) }

# Throws what was caught, be it another error. Calls between may have set $!.
sub rethrow ($class, $caught) {
    $! = $caught->errno if kind_of($caught) ne '';
    die $caught;
}

# Throws what $! says of a local file.
sub throw_errno ($class, $path) {
    my ($number, $message) = ($! + 0, "$!");
    $class->throw($KIND_OF_ERRNO{$number} // 'Internal', $message, path => $path);
}

# The kind of a gateway's code. A newer gateway's code is Internal.
sub kind_of_code ($code) {
    return $code >= 1 && $code <= @KINDS ? $KINDS[$code - 1][0] : 'Internal';
}

# The kind of what an eval caught; '' if it isn't an error of this library.
sub kind_of ($caught) {
    return blessed $caught && $caught->isa(__PACKAGE__) ? $caught->kind : '';
}

# Where the program called the library.
sub _caller () {
    my $level = 0;
    my ($package, $file, $line) = caller $level++;
    while (defined $package && $package =~ /^Strait::FS\b/) { ($package, $file, $line) = caller $level++ }
    return ($file, $line);
}

sub kind       ($self) { return $self->{kind} }
sub message    ($self) { return $self->{message} }
sub path       ($self) { return $self->{path} }
sub retry_safe ($self) { return $self->{retry_safe} }
sub errno      ($self) { return $ERRNO{ $self->{kind} } }

sub as_string ($self, @) {
    my $where = defined $self->{file} ? " at $self->{file} line $self->{line}.\n" : "\n";
    return $self->{message} . $where;
}

1;

__END__

=head1 NAME

Strait::FS::Error - what a failed call throws

=head1 SYNOPSIS

    eval { $client->stat('/missing'); 1 } or do {
        die $@ unless ref $@ && $@->isa('Strait::FS::Error::NotFound');
        print $@->path;
    };

=head1 DESCRIPTION

Each kind has a class C<Strait::FS::Error::KIND>: NotFound, AlreadyExists, NotADirectory, IsADirectory, NotEmpty,
PermissionDenied, Unauthenticated, InvalidArgument, Unsupported, Busy, NoSpace, TimedOut, Unavailable, Corrupt,
OutcomeUnknown, Internal. As a string, an error is its message and the line of the program that made the call.
A failed call also sets C<$!>: to ENOENT if a file is missing.

=over

=item kind

The name of the kind.

=item message

For people: what happened to which object, and what to do.

=item path

The path, as bytes; undef if the error has none.

=item retry_safe

Whether repeating the same call can help, and can do no harm.

=item errno

The number that C<$!> gets.

=back

=cut
