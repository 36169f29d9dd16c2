package Strait::FS::Writer;

# The class to which a handle opened with '>' or '>>' is tied. After NoSpace and Unavailable, a file of Kadoop is still
# open: it keeps the bytes that the gateway hasn't taken, and sends them again with the next call.

use v5.36;
use warnings FATAL => 'all';
use feature 'try';
no warnings 'experimental::try';

use Carp       qw(carp);
use List::Util qw(min);

use Strait::FS::Error;
use Strait::FS::Wire qw(bool content i32 i64);

use constant { FLUSH => 1, SYNC => 2 };    # FlushMode

sub TIEHANDLE ($class, $session, $method, $fields, $path) {
    my $self = bless { session => $session, path => $path, owner => $$, pending => '' }, $class;
    my $reply = $session->change($method, $fields, $path);
    @$self{qw(handle sent)} = ($reply->number(1), $reply->number(2));
    $self->{incarnation} = $session->incarnation;
    return $self;
}

# The position and the file's length, with all bytes written here.
sub TELL   ($self) { return $self->{sent} + CORE::length $self->{pending} }
sub length ($self) { return $self->TELL }

sub PRINT ($self, @values) {
    my $data = @values == 1 ? $values[0] : join $, // '', @values;
    $data .= $\ if defined $\;
    $self->_write($data);
    return 1;
}

sub PRINTF ($self, $format, @values) {
    $self->_write(sprintf $format, @values);
    return 1;
}

# write and syswrite
sub WRITE ($self, $data, $length = undef, $offset = 0) {
    my $part = substr $data, $offset, $length // CORE::length $data;
    $self->_write($part);
    return CORE::length $part;
}

# Makes the written bytes visible to readers who open the file afterwards.
sub flush ($self) { return $self->_flush(FLUSH) }

# Puts the written bytes on stable storage.
sub sync ($self) { return $self->_flush(SYNC) }

sub _flush ($self, $mode) {
    $self->_send;
    $self->_guarded('query', 'flushFile', i64(2, $self->{handle}) . i32(3, $mode));
    return 1;
}

# Puts all bytes on stable storage (except in HDFS). In Kadoop, it may be repeated after NoSpace and Unavailable.
sub CLOSE ($self) {
    return !!0 if $self->{is_closed};
    $self->_send;
    $self->_guarded('change', 'closeFile', i64(4, $self->{handle}));
    $self->{is_closed} = 1;
    return 1;
}

# Ends the file. Flushed bytes stay; other bytes may be lost.
sub abandon ($self) {
    return if $self->{is_closed};
    $self->{is_closed} = 1;
    $self->{session}->tidy('closeFile', i64(4, $self->{handle}) . bool(5, 1), 1);
}

sub FILENO ($self) { return undef }    # no file of this machine

sub BINMODE ($self, $layer = ':raw') {
    return 1 if $layer =~ /\A:(?:raw|bytes|unix)\z/;
    Strait::FS::Error->throw('Unsupported', "the layer $layer: encode the text", path => $self->{path});
}

sub SEEK ($self, @) {
    Strait::FS::Error->throw('Unsupported', 'a file is written at its end only', path => $self->{path});
}

sub READ     { Strait::FS::Error->throw('InvalidArgument', 'the file is open for writing', path => $_[0]{path}) }
sub READLINE { goto &READ }
sub GETC     { goto &READ }
sub pread    { goto &READ }

# A program that fails leaves no file that looks complete.
sub DESTROY ($self) {
    return if $self->{is_closed} || !defined $self->{handle} || $self->{owner} != $$;
    local ($@, $!, $?);
    carp "$self->{path} was not closed: it is abandoned";
    $self->abandon unless ${^GLOBAL_PHASE} eq 'DESTRUCT';
}

# Data of up to 1 MiB is taken whole or, if this throws, not at all. The position tells how much of longer data was.
sub _write ($self, $data) {
    $self->_check_open;
    Strait::FS::Error->throw('InvalidArgument', 'characters above 255: encode the text', path => $self->{path})
        unless utf8::downgrade($data, 1);
    my $capacity = $self->{session}->max_chunk_bytes;
    my $left = CORE::length $data;
    while ($left > 0) {
        my $room = $capacity - CORE::length $self->{pending};
        if ($room < min($left, $capacity)) {
            $self->_send;
            $room = $capacity;
        }
        my $taken = min($left, $room);
        # Perl copies no string that it assigns whole.
        if   ($taken == CORE::length $data && $self->{pending} eq '') { $self->{pending} = $data }
        else                                                          { $self->{pending} .= substr $data, -$left, $taken }
        $left -= $taken;
    }
}

sub _send ($self) {
    $self->_check_open;
    return if $self->{pending} eq '';
    my $fields = i64(4, $self->{handle}) . i64(5, $self->{sent}) . content(6, CORE::length $self->{pending});
    $self->_guarded('change', 'appendData', $fields, \$self->{pending});
    $self->{sent} += CORE::length $self->{pending};
    $self->{pending} = '';
}

# After NoSpace and Unavailable the file goes on; after other errors it is over.
sub _guarded ($self, $how, $method, $fields, @content) {
    $self->_check_open;
    my $session = $self->{session};
    try { return $session->$how($method, $fields, $self->{path}, @content) }
    catch ($failure) {
        my $kind = Strait::FS::Error::kind_of($failure);
        die $failure if $kind eq 'NoSpace' || $kind eq 'Unavailable';
        my $is_gone = $kind eq 'Unauthenticated'
            || $kind eq 'InvalidArgument' && $self->{incarnation} != $session->incarnation;
        my $why = 'the session ended while the file was written';
        $failure = Strait::FS::Error->new('OutcomeUnknown', $why, path => $self->{path}) if $is_gone;
        @$self{qw(is_closed failure)} = (1, $failure);
        Strait::FS::Error->rethrow($failure);
    }
}

sub _check_open ($self) {
    return unless $self->{is_closed};
    Strait::FS::Error->rethrow($self->{failure}) if $self->{failure};
    Strait::FS::Error->throw('InvalidArgument', 'the file is closed', path => $self->{path});
}

1;
