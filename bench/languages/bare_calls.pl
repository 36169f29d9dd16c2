#!/usr/bin/env perl
# bare_calls.pl read|write HOST:PORT PATH MIB: as bare_calls.rb, by Thrift's generated code and runtime for Perl.
# perl -I GENERATED bare_calls.pl …

use v5.36;
use warnings;

# The generator writes `my $request` twice in a row.
BEGIN { $SIG{__WARN__} = sub { warn @_ unless $_[0] =~ /masks earlier declaration/ } }

use IO::Handle;
use Thrift::BinaryProtocol;
use Thrift::FramedTransport;
use Thrift::Socket;
use DfsV2;
use Types;

use constant PIECE_BYTES => 1 << 20;

sub id () { return join '', map { chr int rand 256 } 1 .. 16 }

my ($action, $gateway, $path, $mib) = @ARGV;
my $transport = Thrift::FramedTransport->new(Thrift::Socket->new(split /:/, $gateway));
my $client    = DfsV2Client->new(Thrift::BinaryProtocol->new($transport));
$transport->open();
$client->openSession(OpenSessionRequest->new({ version => 1 }));
STDOUT->autoflush;
say 'ready';
<STDIN>;
if ($action eq 'read') {
    my $handle = $client->openFile(OpenFileRequest->new({ path => $path }))->{handle};
    for my $n (0 .. $mib - 1) {
        my %range = (handle => $handle, offset => $n * PIECE_BYTES, length => PIECE_BYTES);
        my $data  = $client->readRange(ReadRangeRequest->new(\%range))->{data};
        die 'a short reply' unless length $data == PIECE_BYTES;
    }
    $client->closeFile(CloseFileRequest->new({ handle => $handle }));
} else {
    my $handle = $client->createFile(CreateFileRequest->new({ path => $path, request_id => id() }))->{handle};
    my $piece  = "\0" x PIECE_BYTES;
    for my $n (0 .. $mib - 1) {
        my %append = (handle => $handle, expected_offset => $n * PIECE_BYTES, data => $piece, request_id => id());
        $client->appendData(AppendDataRequest->new(\%append));
    }
    $client->closeFile(CloseFileRequest->new({ handle => $handle, request_id => id() }));
}
say 'done';
