package Strait::FS::Listing;

use v5.36;
use warnings FATAL => 'all';

use Strait::FS::Info;
use Strait::FS::Wire qw(bytes i32 i64);

# A directory's entries in the store's order, fetched page by page.
sub open ($class, $session, $path, $page) {
    my $self = bless { session => $session, path => $path, page => $page, owner => $$, entries => [] }, $class;
    # A missing directory is an error at once.
    $self->_fetch('query', undef);
    return $self;
}

# The next entry, a Strait::FS::Info; undef at the end.
sub next ($self) {
    # The cursor moves with each answer, so a later page is asked for once.
    $self->_fetch('once', $self->{cursor}) while !@{ $self->{entries} } && defined $self->{cursor};
    return shift @{ $self->{entries} };
}

sub _fetch ($self, $how, $cursor) {
    delete $self->{cursor};
    my $fields = bytes(2, $self->{path}) . i64(3, $cursor) . i32(4, $self->{page});
    my $page   = $self->{session}->$how('listDirectory', $fields, $self->{path});
    $self->{cursor}  = $page->number(2) if $page->has(2);
    $self->{entries} = [map { Strait::FS::Info->new($_) } $page->structs(1)];
}

sub DESTROY ($self) {
    local ($@, $!, $?);
    return unless defined $self->{cursor} && $self->{owner} == $$ && ${^GLOBAL_PHASE} ne 'DESTRUCT';
    $self->{session}->tidy('closeFile', i64(4, $self->{cursor}));
}

1;

__END__

=head1 NAME

Strait::FS::Listing - a directory, entry by entry

=head1 SYNOPSIS

    my $listing = $client->iterator('/logs');
    while (my $entry = $listing->next) { say $entry->name }

=head1 DESCRIPTION

It fetches a page at a time. If a page is lost, it throws Unavailable: begin anew.

=cut
