package Strait::FS::Info;

use v5.36;
use warnings FATAL => 'all';

use constant { DIRECTORY => 2, MS => 1000 };

# From a FileInfo of the gateway's.
sub new ($class, $fields) {
    my %info = (
        path        => $fields->bytes(1) // '',
        is_dir      => $fields->number(2) == DIRECTORY,
        size        => $fields->number(3),
        block_size  => $fields->number(4),
        replication => $fields->number(5),
        mtime       => $fields->number(6) / MS,
        atime       => $fields->number(7) / MS,
        permission  => $fields->number(8),
        owner       => $fields->bytes(9)  // '',
        group       => $fields->bytes(10) // '',
        is_link     => !!$fields->number(11),
    );
    return bless \%info, $class;
}

sub name ($self) { return $self->{path} =~ m{([^/]*)\z} ? $1 : '' }

for my $field (qw(path is_dir size block_size replication mtime atime permission owner group is_link)) {
    no strict 'refs';
    *{$field} = sub ($self) { return $self->{$field} };
}

1;

__END__

=head1 NAME

Strait::FS::Info - a file or directory

=head1 DESCRIPTION

What C<stat> and C<list> of L<Strait::FS> give. It has C<path> and C<name> (bytes), C<is_dir>, C<is_link> (told by
listings; all else is of what the link leads to), C<size> and C<block_size> (bytes), C<replication>, C<mtime> and
C<atime> (seconds since 1970, with milliseconds), C<permission> (bits, 07777 at most), C<owner> and C<group>.

=cut
