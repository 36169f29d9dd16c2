module github.com/strait-fs/strait/clients/go

go 1.26
