use v5.36;
use warnings FATAL => 'all';

use Test::More;

use Strait::FS::Handle;
use Strait::FS::Wire qw(bytes i64 reply);

# A session of one file in memory. It gives and takes few bytes at a time, and fails as `fails` says.
package Session {
    use Strait::FS::Wire qw(bytes i64);

    sub new ($class, $content) {
        return bless { content => $content, incarnation => 1, fails => [], requests => [] }, $class;
    }
    sub max_chunk_bytes ($self)           { return 7 }
    sub incarnation     ($self)           { return $self->{incarnation} }
    sub change          ($self, @request) { return $self->query(@request) }
    sub tidy            ($self, @request) { push @{ $self->{requests} }, $request[0]; return }

    sub query ($self, $method, $fields, $path, $content = \'') {
        push @{ $self->{requests} }, $method;
        if (my $kind = shift @{ $self->{fails} }) {
            Strait::FS::Error->throw($kind, 'as told', path => $path);
        }
        my %request = ::fields($fields . $$content)->plain;
        if ($method eq 'readRange') {
            my ($offset, $length) = @request{ 3, 4 };
            return ::fields(
                bytes(1, $offset < length $self->{content} ? substr $self->{content}, $offset, $length : ''));
        }
        if ($method eq 'appendData') {
            main::is($request{5}, length $self->{content}, 'an append begins at the end');
            $self->{content} .= $request{6};
        }
        return ::fields(i64(1, 5) . i64(2, length $self->{content}) . bytes(3, $self->{identity}));
    }
}

sub fields ($bytes) {
    my $frame = pack('Nl>/a*l>', 0x80010002, 'x', 1) . "\x0c\0\0$bytes\0\0";
    return reply($frame, 'x', 1)->struct(0);
}

sub reader ($session) { return Strait::FS::Handle->new('Strait::FS::Reader', $session, '/f') }
sub writer ($session) { return Strait::FS::Handle->new('Strait::FS::Writer', $session, 'createFile', '', '/f') }

sub kind ($code) {
    return eval { $code->(); 1 } ? 'lived' : ref $@ ? $@->kind : $@;
}

# Reading

my $text = join '', map { "line $_\n" } 1 .. 20;
my $in = reader(Session->new("$text\n\n\nend"));
my @lines;
while (my $line = <$in>) { push @lines, "$. $line" }
is_deeply(\@lines, [(map { "$_ line $_\n" } 1 .. 20), "21 \n", "22 \n", "23 \n", '24 end'], 'lines and their numbers');
ok(eof $in, 'the end');
is(scalar <$in>, undef, 'no line at the end');
seek $in, 5, 0;
is(tell $in, 5, 'the position');
is_deeply([(<$in>)[0, 1, -1]], ["1\n", "line 2\n", 'end'], 'all lines');
seek $in, -3, 2;
is(getc $in,                      'e',               'a character from the end');
is(scalar <$in>,                  'nd',              'the rest');
is(kind(sub { seek $in, -1, 0 }), 'InvalidArgument', 'a position before the beginning');
seek $in, 0, 0;
{ local $/; is(<$in>, "$text\n\n\nend", 'the whole file') }
seek $in, 0, 0;
{ local $/ = ''; is_deeply([<$in>], ["$text\n", 'end'], 'paragraphs') }
seek $in, 0, 0;
{ local $/ = \100; is(length <$in>, 100, 'a record') }
for my $separator ("1\nline", "\nline 7\n", 'e 1', "\n\n\n") {
    seek $in, 0, 0;
    local $/ = $separator;
    open my $memory, '<', \"$text\n\n\nend";
    is_deeply([<$in>], [<$memory>], 'lines end with ' . $separator =~ s/\n/\\n/gr);
}
seek $in, 0, 0;
my $buffer = 'abc';
is(read($in, $buffer, 20, 5), 20,                                                      'a read with an offset');
is($buffer,                   "abc\0\0" . substr($text, 0, 20),                        'fills the gap');
is(read($in, $buffer, 2, -1), 2,                                                       'an offset from the end');
is($buffer,                   "abc\0\0" . substr($text, 0, 19) . substr($text, 20, 2), 'cuts the buffer');
is($in->getline,              substr($text, 22, 6),                                    'a method of IO::Handle');
is($in->pread(9, 7),          substr($text, 7, 9),                                     'bytes from an offset');
is(tell $in,                  28,                                                      'the position stays');
is($in->pread(100, length($text) + 1), "\n\nend",                                      'fewer at the end');
is(kind(sub { binmode $in, ':utf8' }), 'Unsupported',                                  'no layers');
is(kind(sub { print $in 'x' }),        'InvalidArgument',                              'no writing');
ok(close $in,  'closed');
ok(!close $in, 'only once');
is(kind(sub { my $line = <$in> }), 'InvalidArgument', 'no reading after it');

# A handle that ended with its session

my $session = Session->new('content');
$in = reader($session);
$session->{incarnation} = 2;
$session->{fails} = ['InvalidArgument'];
is(scalar <$in>,                                                'content', 'the file is opened again');
is(scalar(grep { $_ eq 'openFile' } @{ $session->{requests} }), 2,         'once');
seek $in, 0, 0;
$session->{fails} = ['InvalidArgument'];
is(kind(sub { $in->pread(1, 0) }), 'InvalidArgument', 'an error of the same session is reported');
@$session{qw(incarnation fails content)} = (3, ['NotFound'], 'short');
is(kind(sub { $in->pread(1, 0) }), 'Unavailable', 'a shorter file is another one');
$session->{identity} = 'a';
$in = reader($session);
@$session{qw(fails identity)} = (['NotFound'], 'b');
is(kind(sub { $in->pread(1, 0) }), 'Unavailable', 'so is a file of another identity');

# Writing

$session = Session->new('');
my $out = writer($session);
{
    local ($,, $\) = ('-', "!\n");
    print $out 'a', 'b';
}
say $out 'said';
printf $out '%03d', 7;
is(syswrite($out, 'abcdef', 2, 1), 2, 'a part');
$out->print("x\n");
is(tell $out, 17, 'the position counts all');
ok($out->flush, 'flush');
is($session->{content},                "a-b!\nsaid\n007bcx\n", 'what was written');
is(kind(sub { print $out "\x{100}" }), 'InvalidArgument',      'wide characters');
is(kind(sub { my $line = <$out> }),    'InvalidArgument',      'no reading');

print $out '1234567';
$session->{fails} = [qw(NoSpace Unavailable)];
is(kind(sub { print $out '8' }), 'NoSpace',     'a full store');
is(kind(sub { close $out }),     'Unavailable', 'still full');
is(tell $out,                    24,            'nothing of the refused write was taken');
print $out '8';
ok(close $out, 'closed');
is($session->{content}, "a-b!\nsaid\n007bcx\n12345678", 'the kept bytes were sent once');

$out = writer($session);
print $out 'lost';
@$session{qw(incarnation fails)} = (4, ['InvalidArgument']);
is(kind(sub { $out->sync }),     'OutcomeUnknown', 'the session ended');
is(kind(sub { print $out 'x' }), 'OutcomeUnknown', 'the file is over');
ok(!close $out, 'and closed');

my $warning = '';
{
    local $SIG{__WARN__} = sub ($message) { $warning = $message };
    writer($session);
}
like($warning, qr{^/f was not closed}, 'a writer that goes away');
is($session->{requests}[-1], 'closeFile', 'is abandoned');

done_testing;
