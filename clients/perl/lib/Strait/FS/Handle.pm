package Strait::FS::Handle;

use v5.36;
use warnings FATAL => 'all';

use parent qw(IO::Handle IO::Seekable);

use Symbol qw(gensym);

use Strait::FS::Reader;
use Strait::FS::Writer;

# A handle for Perl's own print, readline, seek and so on, tied to a Strait::FS::Reader or Writer.
sub new ($class, $tied, @arguments) {
    my $handle = gensym;
    tie *$handle, $tied, @arguments;
    return bless $handle, $class;
}

sub path    ($self)         { return tied(*$self)->{path} }
sub length  ($self)         { return tied(*$self)->length }
sub pread   ($self, @range) { return tied(*$self)->pread(@range) }
sub flush   ($self)         { return tied(*$self)->can('flush') ? tied(*$self)->flush : 1 }
sub sync    ($self)         { return tied(*$self)->sync }
sub abandon ($self)         { return tied(*$self)->abandon }
# An error is thrown, and not kept.
sub error    ($self) { return 0 }
sub clearerr ($self) { return 0 }

sub opened ($self) { return !tied(*$self)->{is_closed} }

1;

__END__

=head1 NAME

Strait::FS::Handle - an open file behind a gateway

=head1 SYNOPSIS

    my $in = $client->open('/logs/a');
    while (my $line = <$in>) { ... }

    my $out = $client->open('/logs/b', '>');
    print $out "bytes\n";
    close $out;

=head1 DESCRIPTION

Perl's own functions and the methods of L<IO::Handle> and L<IO::Seekable> serve it: C<print>, C<say>, C<printf>,
C<syswrite>, C<readline>, C<read>, C<getc>, C<eof>, C<seek>, C<tell>, C<close>. It holds bytes: encode and decode text.
A failed call throws a L<Strait::FS::Error>, also where Perl's own files return false.

Close a writer. One that goes away without is abandoned, with a warning.

=over

=item path, length

The remote path, as bytes. Of a reader: the file's length when it was opened; of a writer: with all bytes written.

=item pread($length, $offset)

Bytes from an offset, up to the length; fewer at the end of the file. The position stays.

=item flush, sync

flush makes the written bytes visible to readers who open the file afterwards; sync puts them on stable storage, as
close does.

=item abandon

Ends a writer. Flushed bytes stay; other bytes may be lost.

=back

=cut
