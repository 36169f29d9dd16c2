module strait-bench-languages

go 1.26

require github.com/strait-fs/strait/clients/go v0.0.0

replace github.com/strait-fs/strait/clients/go => ../../../clients/go
