use v5.36;
use warnings FATAL => 'all';

use Test::More;

use Strait::FS::Wire qw(bool bytes bytes_list content i16 i32 i64 reply request);

# The frame of a reply: its fields are bytes.
sub frame ($fields, %other) {
    my %head = (version => 0x80010002, method => 'stat', number => 7, %other);
    return pack('Nl>/a*l>', @head{qw(version method number)}) . $fields;
}

sub result ($fields) { return frame("\x0c\0\0" . $fields . "\0\0") }

sub dies ($frame, $wanted, $name) {
    my $lived = eval { reply($frame, 'stat', 7); 1 };
    like($lived ? 'it lived' : ref $@ eq 'Strait::FS::Broken' ? $@->{why} : $@, $wanted, $name);
}

my ($request) = map { $$_ } request('stat', 7, bytes(2, "/\xff") . i64(3, -2) . bool(4, 1) . i16(5, 258) . i32(6, undef));
my $wanted = '80010001' . '00000004' . unpack('H*', 'stat') . '00000007' . '0c0001' . '0b0002000000022fff';
$wanted .= '0a0003fffffffffffffffe' . '02000401' . '0600050102' . '00' . '00';
is(unpack('H*', $request), sprintf('%08x', length($wanted) / 2) . $wanted, 'the bytes of a request');
my $content = 'bytes of a file';
my @parts = request('appendData', 7, i64(4, 1) . content(6, length $content), \$content);
my ($whole_request) = request('appendData', 7, i64(4, 1) . bytes(6, $content));
is(join('', map { $$_ } @parts), $$whole_request, 'the same bytes in parts');
is($parts[1], \$content, 'without a copy of the content');

my $fields = bytes(1, "a\0") . i64(2, -1) . i16(3, -2) . bool(4, 1) . bytes_list(5, 'x', '') . i32(6, 5);
my $result = reply(result($fields), 'stat', 7)->struct(0);
is_deeply([$result->bytes(1), map { $result->number($_) } 2, 3, 4, 6], ["a\0", -1, -2, 1, 5], 'the fields of a reply');
is_deeply([$result->strings(5)], ['x', ''], 'a list');
is_deeply(
    [$result->bytes(2), $result->number(1), $result->struct(5), $result->structs(5), $result->number(9)],
    [undef, 0, undef, 0],
    'fields of other types count as absent'
);
my $map = "\x0d\0\x01\x0b\x0c" . pack('N', 1) . "\0\0\0\x01k" . "\0";
ok(reply(result($map), 'stat', 7)->struct(0)->has(1), 'a map is read over');

my $whole = result($fields);
dies(substr($whole, 0, $_), qr/wrong length/,       "cut after $_ bytes") for 0 .. length($whole) - 1;
dies("$whole\0",            qr/end with its frame/, 'bytes behind it');
dies(result("\x0b\0\x01" . pack 'N', 1 << 30),                         qr/wrong length/,     'a long string');
dies(result("\x0b\0\x01" . pack 'N', 0xffffffff),                      qr/wrong length/,     'a negative length');
dies(result("\x0f\0\x01\x0a" . pack 'N', 0x7fffffff),                  qr/wrong length/,     'a long list');
dies(result("\x0f\0\x01\x0a" . pack 'N', 0x80000000),                  qr/wrong length/,     'a negative count');
dies(result("\x0f\0\x01\0" . pack 'N', 0x7fffffff),                    qr/unknown type/,     'a list of nothing');
dies(result("\x0f\0\x01\x0c" . pack('N', 2 << 20) . "\0" x (2 << 20)), qr/too many values/,  'a list of empty structs');
dies(result("\x11\0\x01"),                                             qr/unknown type/,     'an unknown type');
dies(result("\x0c\0\x01" x 100),                                       qr/too deep/,         'a deep struct');
dies(result("\x0f\0\x01" . "\x0f\0\0\0\x01" x 100),                    qr/too deep/,         'a deep list');
dies(frame("\0", number => 8),                                         qr/another request/,  'another number');
dies(frame("\0", method => 'open'),                                    qr/another method/,   'another method');
dies(frame("\0", version => 0x00000002),                               qr/no reply/,         'no version');
dies(frame(bytes(1, 'no') . "\0", version => 0x80010003),              qr/refuses stat: no/, 'an exception of Thrift');

srand 1;
for (1 .. 5_000) {
    my $broken = $whole;
    substr $broken, rand length $broken, 1, chr rand 256 for 1 .. 1 + rand 3;
    my $lived = eval { my $found = reply($broken, 'stat', 7)->struct(0); $found && $found->strings(5); 1 };
    next if $lived || ref $@;
    fail("random bytes: $@");
}

ok(!eval { bytes(1, "\x{100}") }, 'wide characters');
is($@->kind, 'InvalidArgument', 'wide characters are an argument of the program');
ok(!eval { i16(1, 40_000) }, 'a number that is too large');
ok(!eval { i32(1, 1.5) },    'no whole number');

done_testing;
