#!/usr/bin/env perl
# stream_file.pl read|write HOST:PORT PATH MIB: as stream_file.cpp, with the client for Perl.

use v5.36;
use warnings FATAL => 'all';

use Strait::FS;

use constant PIECE_BYTES => 1 << 20;

my ($action, $gateway, $path, $mib) = @ARGV;
my $client = Strait::FS->connect($gateway);
STDOUT->autoflush;
say 'ready';
<STDIN>;
if ($action eq 'read') {
    my $file  = $client->open($path);
    my $bytes = 0;
    while (my $count = read $file, my $piece, PIECE_BYTES) { $bytes += $count }
    close $file;
    die "another length: $bytes" unless $bytes == $mib << 20;
} else {
    my $file  = $client->open($path, '>', exclusive => 1);
    my $piece = "\0" x PIECE_BYTES;
    print $file $piece for 1 .. $mib;
    close $file;
}
say 'done';
$client->close;
