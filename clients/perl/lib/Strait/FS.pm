package Strait::FS;

use v5.36;
use warnings FATAL => 'all';
use feature 'try';
no warnings 'experimental::try';

use Strait::FS::Error;
use Strait::FS::Handle;
use Strait::FS::Info;
use Strait::FS::Listing;
use Strait::FS::Session;
use Strait::FS::Transfer;
use Strait::FS::URI;
use Strait::FS::Wire qw(bool bytes bytes_list i16 i32 i64 path);

our $VERSION = '0.1.0';

use constant TIMEOUT_S => 120;

sub connect ($class, $address, %options) {
    my ($tls, $timeout) = (delete @options{qw(tls timeout)});
    my %login = map { $_ => delete $options{$_} } qw(store user password token);
    _check(\%options);
    $timeout //= TIMEOUT_S;
    _invalid("the timeout isn't positive: $timeout") if $timeout !~ /\A[0-9.eE+-]+\z/ || $timeout <= 0;
    $tls = {} if $tls && !ref $tls;
    my $uri = Strait::FS::URI->parse_address($address);
    my ($store, $wanted) = ($uri->store, $login{store});
    _invalid("two stores are named: $store and $wanted") if defined $store && defined $wanted && $store ne $wanted;
    $login{store} //= $store;
    return bless { session => Strait::FS::Session->open($uri, \%login, $tls || undef, $timeout) }, $class;
}

sub user  ($self) { return $self->{session}->user }
sub token ($self) { return $self->{session}->token }
sub store ($self) { return $self->{session}->store }
sub close ($self) { return $self->{session}->close }

sub has_capability ($self, $name) {
    return !!grep { $_ eq $name } @{ $self->store->{capabilities} };
}

sub open ($self, $path, $mode = '<', %options) {
    _check(\%options, qw(exclusive permission replication block_size min_replicas));
    my $session = $self->{session};
    return Strait::FS::Handle->new('Strait::FS::Reader', $session, $path) if $mode eq '<';
    my $fields = path(4, $path);
    return Strait::FS::Handle->new('Strait::FS::Writer', $session, 'appendFile', $fields, $path) if $mode eq '>>';
    _invalid("the mode is <, > or >>: $mode") if $mode ne '>';
    $fields .= bool(5, !$options{exclusive}) . i32(6, $options{permission});
    $fields .= i16(7, $options{replication}) . i64(8, $options{block_size}) . i16(9, $options{min_replicas});
    return Strait::FS::Handle->new('Strait::FS::Writer', $session, 'createFile', $fields, $path);
}

sub slurp ($self, $path) {
    local $/;
    return readline($self->open($path)) // '';
}

sub slurp_utf8 ($self, $path) {
    my $text = $self->slurp($path);
    return $text if utf8::decode($text);
    Strait::FS::Error->throw('Corrupt', "the file isn't UTF-8", path => $path);
}

sub spew ($self, $path, @data) {
    # Before a file that exists is overwritten.
    _invalid('characters above 255: use spew_utf8') if grep { !utf8::downgrade($_, 1) } @data;
    my $file = $self->open($path, '>');
    Strait::FS::Transfer::fill($file, sub { shift @data });
    return;
}

sub spew_utf8 ($self, $path, @text) {
    utf8::encode($_) for @text;
    return $self->spew($path, @text);
}

sub stat ($self, $path) {
    my $info = $self->{session}->query('getFileInfo', path(2, $path), $path)->struct(1);
    return Strait::FS::Info->new($info) if $info;
    my $message = "stat: the gateway's reply has no file status (a defect of the gateway)";
    Strait::FS::Error->throw('Internal', $message, path => $path);
}

sub exists ($self, $path) {
    try { $self->stat($path) }
    catch ($failure) {
        return !!0 if Strait::FS::Error::kind_of($failure) =~ /\A(?:NotFound|NotADirectory)\z/;
        die $failure;
    }
    return !!1;
}

sub iterator ($self, $path, %options) {
    _check(\%options, qw(page));
    return Strait::FS::Listing->open($self->{session}, $path, $options{page});
}

sub list ($self, $path, %options) {
    my $listing = $self->iterator($path, %options);
    my @entries;
    while (my $entry = $listing->next) { push @entries, $entry }
    return @entries;
}

sub mkdirs ($self, $path, %options) {
    _check(\%options, qw(permission));
    $self->{session}->change('makeDirectories', path(4, $path) . i32(5, $options{permission}), $path);
    return;
}

sub rename ($self, $source, $target, %options) {
    _check(\%options, qw(replace));
    my $fields = path(4, $source) . path(5, $target) . bool(6, $options{replace});
    $self->{session}->change('renamePath', $fields, $source);
    return;
}

sub remove ($self, $path, %options) {
    _check(\%options, qw(recursive));
    $self->{session}->change('removePath', path(4, $path) . bool(5, $options{recursive}), $path);
    return;
}

sub set_attributes ($self, $path, %set) {
    _check(\%set, qw(permission owner group mtime atime replication));
    my $fields = path(4, $path) . i32(5, $set{permission}) . bytes(6, $set{owner}) . bytes(7, $set{group});
    $fields .= i64(8, _ms($set{mtime})) . i64(9, _ms($set{atime})) . i16(10, $set{replication});
    $self->{session}->change('setAttributes', $fields, $path);
    return;
}

sub truncate ($self, $path, $length) {
    $self->{session}->change('truncateFile', path(4, $path) . i64(5, $length), $path);
    return;
}

sub concat ($self, $path, @sources) {
    $self->{session}->change('concatFiles', path(4, $path) . bytes_list(5, @sources), $path);
    return;
}

sub put ($self, $local, $remote, %options) {
    _check(\%options, qw(overwrite permission));
    return Strait::FS::Transfer::put($self, $local, $remote, %options);
}

sub get ($self, $remote, $local, %options) {
    _check(\%options, qw(overwrite));
    return Strait::FS::Transfer::get($self, $remote, $local, %options);
}

sub locate ($self, $path, $offset = 0, $length = undef) {
    my $fields = path(2, $path) . i64(3, $offset) . i64(4, $length);
    my @blocks = $self->{session}->query('getBlockLocations', $fields, $path)->structs(1);
    return map { { offset => $_->number(1), length => $_->number(2), hosts => [$_->strings(3)] } } @blocks;
}

sub checksum ($self, $path) {
    my $reply = $self->{session}->query('getChecksum', path(2, $path), $path);
    return { algorithm => $reply->bytes(1) // '', value => $reply->bytes(2) // '' };
}

sub status ($self) {
    my $reply = $self->{session}->query('getStoreStatus', '');
    my %bytes = (capacity => $reply->number(2), used => $reply->number(3), remaining => $reply->number(4));
    return { %bytes, is_settling => !!$reply->number(5) };
}

# A misspelt option isn't ignored.
sub _check ($options, @known) {
    my %unknown = %$options;
    delete @unknown{@known};
    _invalid('unknown options: ' . join ', ', sort keys %unknown) if %unknown;
}

sub _ms ($seconds) { return defined $seconds ? sprintf('%.0f', $seconds * 1000) : undef }

sub _invalid ($why) { Strait::FS::Error->throw('InvalidArgument', $why) }

1;

__END__

=head1 NAME

Strait::FS - files of any store behind a Strait gateway

=head1 SYNOPSIS

    use Strait::FS;

    my $client = Strait::FS->connect('strait://127.0.0.1:9090/');
    my $out = $client->open('/logs/a', '>');
    print $out "one\n", "two\n";
    close $out;

    my $in = $client->open('/logs/a');
    while (my $line = <$in>) { print $line }

=head1 DESCRIPTION

Paths are absolute within the store. Paths, names and content are bytes, as for Perl's own files: a path is UTF-8,
encoded. Every call that fails throws a L<Strait::FS::Error>. Times are seconds since 1970, with milliseconds;
lengths, sizes and offsets are bytes; permissions are bits, such as 0640.

=head1 CONNECTING

=over

=item connect($address, %options)

Opens a session. The address is C<strait://HOST:PORT/> or C<HOST:PORT>; C</@NAME> after it names a store. Options:
C<store>, C<user> and C<password>, or C<token> of an earlier session; C<timeout> in seconds (120), which bounds each
request as a whole; C<tls>: 1, or a hash of IO::Socket::SSL's options, such as C<< { SSL_ca_file => 'ca.pem' } >>.

=item user, token

Who is logged in, and what stands for the login until it expires: keep it secret.

=item store, has_capability($name)

The store: a hash of C<name>, C<uri> and C<capabilities> (names).

=item close

Ends the session; close its files first. A client that goes away does so, too.

=back

=head1 FILES

=over

=item open($path, $mode, %options)

A L<Strait::FS::Handle>. The mode is C<< < >> (without it, too), C<< > >> for a file that is made or overwritten, with
its missing parents, or C<<< >> >>> to append to an existing file. Options of C<< > >>: C<exclusive> (a file that exists
is an error), C<permission>, C<replication>, C<block_size>, C<min_replicas>.

=item slurp($path), spew($path, @bytes), slurp_utf8($path), spew_utf8($path, @text)

Read and write a whole file.

=item put($local, $remote, %options), get($remote, $local, %options)

Copy a file, which appears, or is replaced, only when it is complete. In a directory it keeps its name. Options:
C<overwrite>, and of put C<permission>.

=item truncate($path, $length), concat($path, @sources)

Cut a closed file; move the sources' bytes, in order, to the end of a closed file, in one step.

=back

=head1 NAMES

=over

=item stat($path), exists($path)

stat gives a L<Strait::FS::Info>.

=item list($path), iterator($path)

A directory's entries (L<Strait::FS::Info>) in the store's order, all or one by one (L<Strait::FS::Listing>). Option:
C<page>, the entries of one request.

=item mkdirs($path, permission => $bits)

Makes a directory and its missing parents; one that exists is success.

=item rename($source, $target, replace => $bool)

With replace, a file at the target is replaced.

=item remove($path, recursive => $bool)

Removes a file or an empty directory; with recursive, all that is in it, too.

=item set_attributes($path, %attributes)

Sets some of C<permission>, C<owner>, C<group>, C<mtime>, C<atime>, C<replication>.

=back

=head1 THE STORE

=over

=item locate($path, $offset, $length)

The blocks that hold a range of the file, to its end without a length: hashes of C<offset>, C<length>, C<hosts>.

=item checksum($path)

A hash of C<algorithm> and C<value> (bytes). Values compare under the same algorithm.

=item status

A hash of C<capacity>, C<used> and C<remaining> bytes, and C<is_settling>: the store has just started.

=back

=cut
