module github.com/kapok-dev/kapok/test/kubebuilder

go 1.26.8
