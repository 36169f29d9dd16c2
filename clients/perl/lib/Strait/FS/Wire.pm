package Strait::FS::Wire;

# Thrift's binary protocol, strict, in frames. A request is the bytes of its fields, in any order: the functions below
# give one field each. A reply is its fields by number. So no generated code is needed.
#
# A file's bytes aren't copied into a request: its last field is `content`, and their reference goes with the request.

use v5.36;
use warnings FATAL => 'all';

use Encode   qw(FB_CROAK LEAVE_SRC);
use Exporter qw(import);

use Strait::FS::Error;

our @EXPORT_OK = qw(bool i16 i32 i64 bytes content path bytes_list request reply MAX_FRAME);

use constant {
    BOOL   => 2,
    BYTE   => 3,
    DOUBLE => 4,
    I16    => 6,
    I32    => 8,
    I64    => 10,
    BINARY => 11,
    STRUCT => 12,
    MAP    => 13,
    SET    => 14,
    LIST   => 15,
};
use constant {
    STOP       => "\0",
    STRICT     => 0x80010000,
    CALL       => 1,
    EXCEPTION  => 3,
    MAX_DEPTH  => 16,
    MAX_FRAME  => 16 << 20,
    MAX_VALUES => 1 << 20,      # each takes some hundred bytes of memory; a page of a listing has some 10,000
};
my %FORMATS = (BOOL, 'c', BYTE, 'c', I16, 's>', I32, 'l>', I64, 'q>', DOUBLE, 'q>');
my %LENGTHS = (BOOL, 1, BYTE, 1, I16, 2, I32, 4, I64, 8, DOUBLE, 8);

# One field of a request. A value that is undef isn't sent.
sub bool  ($id, $value) { return defined $value ? pack('Cs>c', BOOL, $id, $value ? 1 : 0) : '' }
sub i16   ($id, $value) { return _number(I16, $id, $value, 0x7fff) }
sub i32   ($id, $value) { return _number(I32, $id, $value, 0x7fffffff) }
sub i64   ($id, $value) { return _number(I64, $id, $value, ~0 >> 1) }
sub bytes ($id, $value) { return defined $value ? pack('Cs>', BINARY, $id) . _bytes($value) : '' }

# Of bytes that are sent behind it.
sub content ($id, $length) { return pack 'Cs>l>', BINARY, $id, $length }

# A path: bytes of UTF-8.
sub path ($id, $value) {
    my $field = bytes($id, $value);
    return $field if $field eq '' || _is_utf8($value);
    Strait::FS::Error->throw('InvalidArgument', "the path isn't UTF-8: encode it", path => $value);
}

sub _is_utf8 ($bytes) {
    local $@;
    return eval { Encode::decode('UTF-8', $bytes, FB_CROAK | LEAVE_SRC); 1 };
}

sub bytes_list ($id, @values) {
    return pack('Cs>Cl>', LIST, $id, BINARY, scalar @values) . join '', map { _bytes($_) } @values;
}

sub _number ($kind, $id, $value, $max) {
    return '' unless defined $value;
    Strait::FS::Error->throw('InvalidArgument', "not a whole number of the field's size: $value")
        unless $value =~ /\A-?[0-9]{1,19}\z/a && abs $value <= $max;
    return pack "Cs>$FORMATS{$kind}", $kind, $id, $value;
}

sub _bytes ($value) {
    Strait::FS::Error->throw('InvalidArgument', 'characters above 255: encode the text first, as UTF-8')
        unless utf8::downgrade($value, 1);
    return pack('l>', length $value) . $value;
}

# References to the parts of a call's frame.
sub request ($method, $number, $fields, $content = undef) {
    my $message = pack('Nl>/a*l>Cs>', STRICT | CALL, $method, $number, STRUCT, 1) . $fields;
    my $length = length($message) + ($content ? length $$content : 0) + 2;
    my $frame = pack('N', $length) . $message;
    return $content ? (\$frame, $content, \(STOP . STOP)) : \($frame . STOP . STOP);
}

# The fields of a reply, without the frame's length: 0 is the result, 1 the error. It throws Strait::FS::Broken if the
# bytes aren't the reply to this request.
sub reply ($frame, $method, $number) {
    my $reader = bless { frame => \$frame, at => 0, values => 0 }, 'Strait::FS::Wire::Reader';
    my $head = $reader->number(I32) & 0xffffffff;
    Strait::FS::Broken->throw("no reply of Thrift's") if ($head & 0xffff0000) != STRICT;
    my $name = $reader->bytes;
    Strait::FS::Broken->throw('a reply to another request') if $reader->number(I32) != $number;
    my $fields = $reader->struct(0);
    Strait::FS::Broken->throw("a reply that doesn't end with its frame") if $reader->{at} != length $frame;
    Strait::FS::Error->throw('Internal', "the gateway refuses $method: " . ($fields->bytes(1) // ''))
        if ($head & 0xff) == EXCEPTION;
    Strait::FS::Broken->throw('a reply to another method') if $name ne $method;
    return $fields;
}

# Why a connection can't go on. It isn't a text: a program's handler of signals may die with one.
package Strait::FS::Broken {
    sub throw ($class, $why) { die bless { why => $why }, $class }
}

# Of a reply without a result.
sub no_fields () { return bless {}, 'Strait::FS::Wire::Fields' }

# Reads within a frame. It checks each length against what is left of the frame.
package Strait::FS::Wire::Reader {

    sub take ($self, $length) {
        my $at = $self->{at};
        Strait::FS::Broken->throw('a reply with a wrong length')
            if $length < 0 || $length > length(${ $self->{frame} }) - $at;
        $self->{at} += $length;
        return substr ${ $self->{frame} }, $at, $length;
    }

    sub number ($self, $kind) { return unpack $FORMATS{$kind}, $self->take($LENGTHS{$kind}) }
    sub bytes  ($self)        { return $self->take($self->number(Strait::FS::Wire::I32)) }

    sub struct ($self, $depth) {
        my %fields;
        while (my $kind = $self->number(Strait::FS::Wire::BYTE)) {
            my $id = $self->number(Strait::FS::Wire::I16);
            $fields{$id} = [$kind, $self->value($kind, $depth + 1)];
        }
        return bless \%fields, 'Strait::FS::Wire::Fields';
    }

    sub value ($self, $kind, $depth) {
        Strait::FS::Broken->throw('a reply that is too deep') if $depth > Strait::FS::Wire::MAX_DEPTH;
        Strait::FS::Broken->throw('a reply with too many values') if ++$self->{values} > Strait::FS::Wire::MAX_VALUES;
        return $self->number($kind) if $LENGTHS{$kind};
        return $self->bytes if $kind == Strait::FS::Wire::BINARY;
        return $self->struct($depth) if $kind == Strait::FS::Wire::STRUCT;
        return $self->items(1, $depth) if $kind == Strait::FS::Wire::LIST || $kind == Strait::FS::Wire::SET;
        return $self->items(2, $depth) if $kind == Strait::FS::Wire::MAP;
        Strait::FS::Broken->throw('a reply with a field of an unknown type');
    }

    # A list is its items' kind and they. No message has maps: those of a newer gateway are read over.
    sub items ($self, $each, $depth) {
        my @kinds = map { $self->number(Strait::FS::Wire::BYTE) } 1 .. $each;
        my $count = $self->number(Strait::FS::Wire::I32);
        Strait::FS::Broken->throw('a reply with a wrong length') if $count < 0;
        my @items;    # grows with the bytes: an item takes one at least
        while ($count-- > 0) {
            push @items, map { $self->value($_, $depth + 1) } @kinds;
        }
        return [$kinds[0], \@items];
    }
}

# A message's fields by number. A field of another type than expected counts as absent, as in Thrift's own decoders.
package Strait::FS::Wire::Fields {

    sub has ($self, $id) { return exists $self->{$id} }

    # Of a whole number or truth value; 0 if it is absent.
    sub number ($self, $id) {
        my $field = $self->{$id};
        return $field && $LENGTHS{ $field->[0] } ? $field->[1] : 0;
    }

    sub bytes   ($self, $id) { return $self->_of($id, Strait::FS::Wire::BINARY) }
    sub struct  ($self, $id) { return $self->_of($id, Strait::FS::Wire::STRUCT) }
    sub strings ($self, $id) { return $self->_items($id, Strait::FS::Wire::BINARY) }
    sub structs ($self, $id) { return $self->_items($id, Strait::FS::Wire::STRUCT) }

    # Numbers and bytes by field, for tests.
    sub plain ($self) {
        return map { ref $self->{$_}[1] ? () : ($_ => $self->{$_}[1]) } keys %$self;
    }

    sub _of ($self, $id, $kind) {
        my $field = $self->{$id};
        return $field && $field->[0] == $kind ? $field->[1] : undef;
    }

    sub _items ($self, $id, $kind) {
        my $list = $self->_of($id, Strait::FS::Wire::LIST);
        return $list && $list->[0] == $kind ? @{ $list->[1] } : ();
    }
}

1;
