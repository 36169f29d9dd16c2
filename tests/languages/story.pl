# Calls of both generations of the interface, by Thrift's generator and runtime for Perl:
# perl -I GENERATED story.pl HOST PORT DIRECTORY
use strict;
use warnings;

# The generator writes `my $request` twice in a row.
BEGIN { $SIG{__WARN__} = sub { warn @_ unless $_[0] =~ /masks earlier declaration/ } }

use Thrift::BinaryProtocol;
use Thrift::BufferedTransport;
use Thrift::Socket;
use DfsService;
use DfsV2;
use Constants;
use Types;

my ($host, $port, $directory) = @ARGV;
my $transport = Thrift::BufferedTransport->new(Thrift::Socket->new($host, $port));
my $client = DfsV2Client->new(Thrift::BinaryProtocol->new($transport));
$transport->open();
my $bytes = "bytes\0\xff";

sub same {
    my ($got, $wanted) = @_;
    die "$got in place of $wanted" unless $got eq $wanted;
}

sub id { return join '', map { chr int rand 256 } 1 .. 16 }

sub last_names { return join ' ', sort map { (split m{/}, $_->{path})[-1] } @_ }

# 2009
my $session = $client->init('');
same($client->mkdir($session, $directory), 1);
my $path = "$directory/old";
my $file = $client->open($session, $path, Constants::WRITE);
$client->write($session, $file, $bytes, -1, 7);
$client->close($session, $file);
same($client->stat($session, $path)->{length}, 7);
$file = $client->open($session, $path, Constants::READ);
my $read = $client->read($session, $file, 0, 5);
same($read, 'bytes');
$client->close($session, $file);
same(last_names(@{ $client->listFiles($session, $directory) }), 'old');
eval { $client->stat($session, "$directory/missing"); 1 } and die 'no exception';
die $@ unless ref $@ && $@->isa('DfsServiceIOException') && $@->{message} =~ /missing/;
$client->closeClient($session);

# Today
$client->openSession(OpenSessionRequest->new({ version => 1 }));
$path = "$directory/new";
$file = $client->createFile(CreateFileRequest->new({ path => $path, request_id => id() }));
my %append = (handle => $file->{handle}, expected_offset => 0, data => $bytes, request_id => id());
same($client->appendData(AppendDataRequest->new(\%append))->{position}, 7);
my $close = CloseFileRequest->new({ handle => $file->{handle}, request_id => id() });
same($client->closeFile($close)->{length}, 7);
$file = $client->openFile(OpenFileRequest->new({ path => $path }));
my $range = ReadRangeRequest->new({ handle => $file->{handle}, offset => 2, length => 100 });
same($client->readRange($range)->{data}, substr $bytes, 2);
$client->closeFile(CloseFileRequest->new({ handle => $file->{handle} }));
my $list = ListDirectoryRequest->new({ path => $directory });
same(last_names(@{ $client->listDirectory($list)->{entries} }), 'new old');
eval { $client->getFileInfo(GetFileInfoRequest->new({ path => "$directory/missing" })); 1 } and die 'no exception';
die $@ unless ref $@ && $@->isa('DfsError');
same("$@->{code} $@->{kind} $@->{path}", ErrorCode::NOT_FOUND . " NotFound $directory/missing");
my $remove = RemovePathRequest->new({ path => $directory, recursive => 1, request_id => id() });
$client->removePath($remove);
$client->closeSession(CloseSessionRequest->new());
print "Perl: both generations of calls\n";
