module github.com/kapok-dev/kapok/test/corpus/operators/testdata/modules

go 1.26.8

require (
	github.com/argoproj/argo-cd/v3 v3.5.7
	github.com/argoproj/argo-rollouts v1.10.0
	github.com/cert-manager/cert-manager v1.21.2
	github.com/elastic/cloud-on-k8s/v3 v3.5.0
	github.com/external-secrets/external-secrets v1.3.2
	github.com/fluxcd/source-controller v1.9.6
	github.com/kedacore/keda/v2 v2.21.0
	github.com/kyverno/kyverno v1.19.1
	github.com/prometheus-operator/prometheus-operator v0.85.0
	github.com/vmware-tanzu/velero v1.18.3
	istio.io/api v1.31.1
	knative.dev/serving v0.51.0
	sigs.k8s.io/cluster-api v1.14.2
	sigs.k8s.io/gateway-api v1.6.3
	sigs.k8s.io/karpenter v1.14.0
)
