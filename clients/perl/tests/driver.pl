#!/usr/bin/env perl
# Answers the requests of tests/languages/driver.py.

use v5.36;
use warnings FATAL => 'all';

use Strait::FS;
use Strait::FS::URI;
use Strait::FS::Wire qw(bool bytes i16 i32 i64);

my (%clients, %files, $client);
my %MODES = (read => ['<'], create => ['>', exclusive => 1], overwrite => ['>'], append => ['>>']);
my %FIELDS = (2 => \&bool, 6 => \&i16, 8 => \&i32, 10 => \&i64, 11 => \&bytes);

# An empty argument stands for none.
sub optional ($argument) { return $argument eq '' ? undef : $argument }

my %answers = (
    connect => sub ($name, $address, $timeout_ms) {
        $client = $clients{$name} = Strait::FS->connect($address, timeout => $timeout_ms / 1000);
        return join ',', @{ $client->store->{capabilities} };
    },
    use        => sub ($name) { $client = $clients{$name};      return },
    disconnect => sub ($name) { delete($clients{$name})->close; return },
    open       => sub ($name, $path, $mode, $permission) {
        my ($symbol, %options) = @{ $MODES{$mode} };
        $files{$name} = $client->open($path, $symbol, %options, permission => optional($permission));
        return;
    },
    read => sub ($name, $length) {
        local $/;
        return readline($files{$name}) // '' if $length < 0;
        read($files{$name}, my $data, $length);
        return $data;
    },
    pread    => sub ($name, $offset, $length) { return $files{$name}->pread($length, $offset) },
    write    => sub ($name, $data) { print { $files{$name} } $data; return },
    position => sub ($name) { return tell $files{$name} },
    flush    => sub ($name) { $files{$name}->flush; return },
    sync     => sub ($name) { $files{$name}->sync;  return },
    close    => sub ($name) { close $files{$name};  delete $files{$name}; return },
    stat     => sub ($path) {
        my $info = $client->stat($path);
        my @times = map { sprintf '%.0f', $_ * 1000 } $info->mtime, $info->atime;
        return ($info->is_dir ? 'directory' : 'file', $info->size, $info->permission, $info->replication, @times);
    },
    exists => sub ($path) { return $client->exists($path) ? 1 : 0 },
    list   => sub ($path, $page) {
        return map { $_->name } $client->list($path, page => optional($page));
    },
    mkdirs     => sub ($path,   $permission) { $client->mkdirs($path, permission => optional($permission)) },
    rename     => sub ($source, $target, $replace) { $client->rename($source, $target, replace => $replace) },
    remove     => sub ($path,   $recursive) { $client->remove($path, recursive => $recursive) },
    attributes => sub ($path,   @values) {
        my ($permission, $replication, @times) = map { optional($_) } @values;
        my ($mtime, $atime) = map { defined ? $_ / 1000 : undef } @times;
        my %set = (permission => $permission, replication => $replication, mtime => $mtime, atime => $atime);
        $client->set_attributes($path, %set);
    },
    truncate => sub ($path,  $length) { $client->truncate($path, $length) },
    concat   => sub ($path,  @sources) { $client->concat($path, @sources) },
    put      => sub ($local, $path,   $overwrite) { $client->put($local, $path, overwrite => $overwrite) },
    locate   => sub ($path,  $offset, $length) {
        return
            map { (@$_{qw(offset length)}, scalar @{ $_->{hosts} }) }
            $client->locate($path, $offset, optional($length));
    },
    checksum => sub ($path) { return @{ $client->checksum($path) }{qw(algorithm value)} },
    status   => sub () { return @{ $client->status }{qw(capacity used remaining)} },
    uri      => sub ($text) {
        my $uri = Strait::FS::URI->parse($text);
        return ($uri->host, $uri->port, $uri->store // '', $uri->path);
    },
    request => sub ($name, $method, @arguments) {
        my $fields = '';
        while (my ($id, $kind, $value) = splice @arguments, 0, 3) {
            $fields .= $FIELDS{$kind}->($id, $value);
        }
        return $clients{$name}{session}->once($method, $fields)->plain;
    },
);

sub number () {
    my $count = read(STDIN, my $bytes, 4);
    exit if !$count;
    return unpack 'N', $bytes;
}

sub part () {
    my $length = number();
    read(STDIN, my $bytes, $length);
    return $bytes;
}

binmode STDIN;
binmode STDOUT;
STDOUT->autoflush(0);
while (1) {
    my ($operation, @arguments) = map { part() } 1 .. number();
    my @answer = eval { ('ok', $answers{$operation}->(@arguments)) };
    if (my $failure = $@) {
        die $failure unless ref $failure && $failure->isa('Strait::FS::Error');
        @answer = ('error', $failure->kind, $failure->path // '', $failure->message, ref $failure);
    }
    print pack('N', scalar @answer), map { pack 'N/a*', $_ } @answer;
    STDOUT->flush;
}
