package Strait::FS::Transfer;

# Whole files between this machine and the store, by temporary names.

use v5.36;
use warnings FATAL => 'all';
use feature 'try';
no warnings 'experimental::try';

use Fcntl          qw(O_CREAT O_EXCL O_WRONLY);
use File::Basename qw(basename dirname);

use Strait::FS::Error;
use Strait::FS::Session;
use Strait::FS::Wire qw(path);

use constant PIECE_BYTES => 1 << 20;

# Writes all that $next gives, until undef, and closes the file; after an error it abandons it.
sub fill ($file, $next) {
    try {
        while (defined(my $data = $next->())) { print $file $data }
        close $file;
    }
    catch ($failure) {
        $file->abandon;
        Strait::FS::Error->rethrow($failure);
    }
}

sub put ($client, $local, $remote, %options) {
    open my $source, '<:raw', $local or Strait::FS::Error->throw_errno($local);
    my $there = _stat($client, $remote);
    if ($there && $there->is_dir) {
        $remote = ($remote =~ s{/+\z}{}r) . '/' . basename($local);
        $there = _stat($client, $remote);
    }
    my @path = (path => $remote);
    Strait::FS::Error->throw('AlreadyExists', 'the path is taken',         @path) if $there && !$options{overwrite};
    Strait::FS::Error->throw('IsADirectory',  'the target is a directory', @path) if $there && $there->is_dir;
    my $temporary = ($remote =~ s{[^/]*\z}{}r) . '.strait-put-' . _random();
    try {
        my $target = $client->open($temporary, '>', exclusive => 1, permission => $options{permission});
        fill($target, sub { _piece($source, $local) });
        my $can_replace = $client->has_capability('rename_replace');
        $client->remove($remote) if $there && !$can_replace;
        $client->rename($temporary, $remote, replace => $options{overwrite} && $can_replace);
    }
    catch ($failure) {
        $client->{session}->tidy('removePath', path(4, $temporary), 1);
        my $is_of_temporary = Strait::FS::Error::kind_of($failure) ne '' && ($failure->path // '') eq $temporary;
        Strait::FS::Error->rethrow($failure) unless $is_of_temporary;
        # Nobody knows the temporary name.
        my $message = $failure->message =~ s/\Q$temporary\E/$remote/gr;
        Strait::FS::Error->throw($failure->kind, $message, @path, retry_safe => $failure->retry_safe);
    }
    return;
}

sub get ($client, $remote, $local, %options) {
    $local = "$local/" . basename($remote) if -d $local;
    Strait::FS::Error->throw('AlreadyExists', 'the file is there already', path => $local)
        if !$options{overwrite} && -e $local;
    my $source = $client->open($remote);
    my $temporary = dirname($local) . '/.strait-get-' . _random();
    sysopen my $target, $temporary, O_WRONLY | O_CREAT | O_EXCL or Strait::FS::Error->throw_errno($local);
    try {
        binmode $target;
        while (sysread $source, my $data, PIECE_BYTES) {
            print $target $data or Strait::FS::Error->throw_errno($local);
        }
        close $target or Strait::FS::Error->throw_errno($local);
        # A link, unlike a rename, doesn't replace.
        if ($options{overwrite}) { rename $temporary, $local or Strait::FS::Error->throw_errno($local) }
        else                     { link $temporary, $local or Strait::FS::Error->throw_errno($local) }
    }
    catch ($failure) {
        close $target; # else Perl's warning about bytes that don't fit would take the failure's place
        unlink $temporary;
        Strait::FS::Error->rethrow($failure);
    }
    unlink $temporary unless $options{overwrite};
    return;
}

# undef at the end.
sub _piece ($source, $local) {
    my $count = sysread $source, my $data, PIECE_BYTES;
    Strait::FS::Error->throw_errno($local) unless defined $count;
    return $count ? $data : undef;
}

sub _stat ($client, $path) {
    try { return $client->stat($path) }
    catch ($failure) { die $failure if Strait::FS::Error::kind_of($failure) ne 'NotFound' }
    return undef;
}

sub _random () { return unpack 'H*', Strait::FS::Session::new_id() }

1;
