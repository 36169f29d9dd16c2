package Strait::FS::Reader;

# The class to which a handle opened with '<' is tied.

use v5.36;
use warnings FATAL => 'all';
use feature 'try';
no warnings 'experimental::try';

use List::Util qw(max min);

use Strait::FS::Error;
use Strait::FS::Wire qw(i32 i64 path);

use constant CHUNK_BYTES => 1 << 20;    # of one request; small reads are served from it

sub TIEHANDLE ($class, $session, $path) {
    my %buffer = (buffer => '', buffer_at => 0, next => 0);    # next: where in the buffer to go on
    my $self = bless { session => $session, path => $path, owner => $$, line => 0, %buffer }, $class;
    $self->_open;
    return $self;
}

sub length ($self) { return $self->{length} }

# read and sysread: to the length or the end. Its second argument is the caller's buffer.
sub READ {    # without a signature: it changes an argument
    my ($self, undef, $length, $offset) = @_;
    my $target = \$_[1];
    $self->_invalid('a negative length') if $length < 0;
    $$target //= '';
    $offset  //= 0;
    $offset += CORE::length $$target if $offset < 0;
    $self->_invalid('an offset before the buffer') if $offset < 0;
    $$target .= "\0" x ($offset - CORE::length $$target) if $offset > CORE::length $$target;
    my $data = '';
    while ((my $left = $length - CORE::length $data) > 0) {
        last unless $self->_fill;
        $data .= $self->_take($left);
    }
    substr($$target, $offset) = $data;
    return CORE::length $data;
}

# Lines as $/ separates them; the rest of the file if it is undef.
sub READLINE ($self) {
    if (!wantarray) { return $self->_line }
    my @lines;
    while (defined(my $line = $self->_line)) { push @lines, $line }
    return @lines;
}

sub GETC ($self)    { return $self->_fill ? $self->_take(1) : undef }
sub EOF  ($self, @) { return !$self->_fill }
sub TELL ($self)    { return $self->{buffer_at} + $self->{next} }

sub SEEK ($self, $offset, $whence) {
    $self->_check_open;
    my $target = $offset + ($whence == 0 ? 0 : $whence == 1 ? $self->TELL : $self->{length});
    $self->_invalid("a position before the file's beginning") if $target < 0;
    my $next = $target - $self->{buffer_at};
    my $is_in = $next >= 0 && $next <= CORE::length $self->{buffer};
    @$self{qw(buffer buffer_at next)} = ('', $target, 0) unless $is_in;
    $self->{next} = $next if $is_in;
    return 1;
}

# Bytes from an offset, up to the length; fewer at the end of the file. The position stays.
sub pread ($self, $length, $offset) {
    $self->_invalid('a negative offset or length') if $offset < 0 || $length < 0;
    my $data = '';
    while ((my $left = $length - CORE::length $data) > 0) {
        my $part = $self->_fetch($offset + CORE::length $data, $left);
        last if $part eq '';
        $data .= $part;
    }
    return $data;
}

sub CLOSE ($self) {
    return !!0 if $self->{is_closed};
    @$self{qw(is_closed buffer next)} = (1, '', 0);
    # After a fork, the parent still uses it.
    $self->{session}->tidy('closeFile', i64(4, $self->{handle})) if $self->{owner} == $$;
    return 1;
}

sub PRINT  { $_[0]->_invalid('the file is open for reading') }
sub PRINTF { goto &PRINT }
sub WRITE  { goto &PRINT }
sub sync   { goto &PRINT }

sub FILENO ($self) { return undef }    # no file of this machine

sub BINMODE ($self, $layer = ':raw') {
    return 1 if $layer =~ /\A:(?:raw|bytes|unix)\z/;
    Strait::FS::Error->throw('Unsupported', "the layer $layer: decode the bytes", path => $self->{path});
}

sub DESTROY ($self) {
    local ($@, $!, $?);
    $self->CLOSE if defined $self->{handle} && ${^GLOBAL_PHASE} ne 'DESTRUCT';
}

sub _line ($self) {
    my $separator = $/;
    return $self->_record($$separator) if ref $separator;
    if (defined $separator && $separator eq '') {
        $separator = "\n\n";
        $self->_take(1) while $self->_fill && substr($self->{buffer}, $self->{next}, 1) eq "\n";
    }
    # Most lines are in the buffer as a whole.
    my $found = defined $separator ? index $self->{buffer}, $separator, $self->{next} : -1;
    my $line;
    if   ($found < 0) { $line = $self->_long_line($separator) }
    else              { $line = $self->_take($found - $self->{next} + CORE::length $separator) }
    return undef if $line eq '';
    $. = ++$self->{line};
    return $line;
}

sub _long_line ($self, $separator) {
    my $line = '';
    while ($self->_fill) {
        my $end = defined $separator ? $self->_end_of_line($separator, $line) : -1;
        return $line . $self->_take($end) if $end >= 0;
        $line .= $self->_take(CHUNK_BYTES);
    }
    return $line;
}

# How many bytes of the buffer end a line that began with $line, or -1. The separator may begin in $line.
sub _end_of_line ($self, $separator, $line) {
    for my $before (reverse 1 .. min(CORE::length $line, CORE::length($separator) - 1)) {
        my $rest = CORE::length($separator) - $before;
        return $rest if substr($line, -$before) . substr($self->{buffer}, $self->{next}, $rest) eq $separator;
    }
    my $found = index $self->{buffer}, $separator, $self->{next};
    return $found < 0 ? -1 : $found - $self->{next} + CORE::length $separator;
}

sub _record ($self, $length) {
    my $record = '';
    $self->READ($record, $length) or return undef;
    $. = ++$self->{line};
    return $record;
}

# Whether the buffer has bytes at the position; it fetches them. A file may grow: its end isn't kept.
sub _fill ($self) {
    $self->_check_open;
    return 1 if $self->{next} < CORE::length $self->{buffer};
    my $position = $self->TELL;
    @$self{qw(buffer buffer_at next)} = ($self->_fetch($position, CHUNK_BYTES), $position, 0);
    return $self->{buffer} ne '';
}

# Up to this many bytes out of the buffer.
sub _take ($self, $length) {
    my $taken = substr $self->{buffer}, $self->{next}, $length;
    $self->{next} += CORE::length $taken;
    return $taken;
}

sub _fetch ($self, $offset, $length) {
    $self->_check_open;
    $length = min($length, CHUNK_BYTES, $self->{session}->max_chunk_bytes);
    try { return $self->_range($offset, $length) }
    catch ($failure) {
        # The handle ends with its session: the file is opened again, once.
        my $kind = Strait::FS::Error::kind_of($failure);
        my $is_anew = $self->{incarnation} != $self->{session}->incarnation;
        my $is_gone = $kind eq 'NotFound' || $is_anew && $kind =~ /\A(?:InvalidArgument|Unauthenticated)\z/;
        die $failure unless $is_gone;
        $self->_reopen;
    }
    return $self->_range($offset, $length);
}

sub _range ($self, $offset, $length) {
    my $fields = i64(2, $self->{handle}) . i64(3, $offset) . i32(4, $length);
    my $data = $self->{session}->query('readRange', $fields, $self->{path})->bytes(1) // '';
    return $data if CORE::length $data <= $length;
    Strait::FS::Error->throw('Internal', 'the gateway sent more bytes than were asked for', path => $self->{path});
}

sub _open ($self) {
    my $reply = $self->{session}->query('openFile', path(2, $self->{path}), $self->{path});
    @$self{qw(handle length identity)} = ($reply->number(1), $reply->number(2), $reply->bytes(3));
    $self->{incarnation} = $self->{session}->incarnation;
}

# The bytes of two files would be mixed otherwise. If another file is there, this one stays unusable.
sub _reopen ($self) {
    my @kept = qw(handle length identity incarnation);
    my @before = @$self{@kept};
    my ($length, $identity) = @before[1, 2];
    $self->_open;
    my $is_other = defined $identity && defined $self->{identity} && $identity ne $self->{identity};
    return unless $is_other || $self->{length} < $length;
    $self->{session}->tidy('closeFile', i64(4, $self->{handle}));
    @$self{@kept} = @before;
    Strait::FS::Error->throw('Unavailable', 'the file was replaced while it was read', path => $self->{path});
}

sub _check_open ($self) { $self->_invalid('the file is closed') if $self->{is_closed} }

sub _invalid ($self, $why) { Strait::FS::Error->throw('InvalidArgument', $why, path => $self->{path}) }

1;
