module github.com/kapok-dev/kapok/test/powercut

go 1.26.8

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/kapok-dev/kapok v0.0.0
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/kapok-dev/kapok => ../..
