module github.com/kapok-dev/kapok/docs/site

go 1.26.8

require (
	github.com/alecthomas/chroma/v2 v2.27.0
	github.com/yuin/goldmark v1.8.7
	golang.org/x/mod v0.41.0
	golang.org/x/net v0.62.0
)

require github.com/dlclark/regexp2/v2 v2.2.1 // indirect
