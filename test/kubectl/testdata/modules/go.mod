module github.com/kapok-dev/kapok/test/kubectl/testdata/modules

go 1.26.8

require (
	github.com/argoproj/argo-cd/v3 v3.5.7
	github.com/argoproj/argo-rollouts v1.10.0
	github.com/cert-manager/cert-manager v1.21.2
	github.com/elastic/cloud-on-k8s/v3 v3.5.0
	github.com/fluxcd/source-controller v1.9.6
	github.com/kedacore/keda/v2 v2.21.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/karpenter v1.14.0
)
