package Strait::FS::Listing;

use v5.36;
use warnings FATAL => 'all';
use feature 'try';
no warnings 'experimental::try';

use Strait::FS::Error;
use Strait::FS::Info;
use Strait::FS::Wire qw(i32 i64 path);

# A directory's entries in the store's order, fetched page by page. A missing directory is an error at once.
sub open ($class, $session, $path, $page) {
    my $self = bless { session => $session, path => $path, page => $page, owner => $$ }, $class;
    $self->_keep($session->query('listDirectory', $self->_request(undef), $path));
    $self->{incarnation} = $session->incarnation;
    return $self;
}

# The next entry, a Strait::FS::Info; undef at the end.
sub next ($self) {
    $self->_fetch while !@{ $self->{entries} } && defined $self->{cursor};
    return shift @{ $self->{entries} };
}

# The cursor moves with each answer and ends with its session, so a later page is asked for once.
sub _fetch ($self) {
    my ($session, $path, $cursor) = (@$self{qw(session path)}, delete $self->{cursor});
    try { $self->_keep($session->once('listDirectory', $self->_request($cursor), $path)) }
    catch ($failure) {
        die $failure if $self->{incarnation} == $session->incarnation;
        Strait::FS::Error->throw('Unavailable', 'the session ended: list anew', path => $path, retry_safe => 1);
    }
}

sub _request ($self, $cursor) { return path(2, $self->{path}) . i64(3, $cursor) . i32(4, $self->{page}) }

sub _keep ($self, $page) {
    $self->{cursor} = $page->has(2) ? $page->number(2) : undef;
    $self->{entries} = [map { $self->_entry($_) } $page->structs(1)];
    return if @{ $self->{entries} } || !defined $self->{cursor};
    $self->_refuse('the gateway sent an empty page that isn\'t the last (a defect of the gateway)');
}

# An entry is a child of the listed directory. Programs join its name to paths of their own.
sub _entry ($self, $fields) {
    my $entry     = Strait::FS::Info->new($fields);
    my $directory = join '/', '', grep { $_ ne '' } split m{/}, $self->{path};
    my $name      = $entry->name;
    return $entry if $entry->path eq "$directory/$name" && $name !~ /\A\.{0,2}\z|\0/;
    $self->_refuse(sprintf 'the gateway named %s, which isn\'t in this directory', $entry->path);
}

sub _refuse ($self, $why) { Strait::FS::Error->throw('Internal', "list $self->{path}: $why", path => $self->{path}) }

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

It fetches a page at a time. If a page is lost, or the session ends, it throws Unavailable: list anew.

=cut
