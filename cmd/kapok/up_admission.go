package main

import (
	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// admissionFlags are the flags about admission plugins, named as kube-apiserver's.
func admissionFlags(f *pflag.FlagSet, o *kapok.AdmissionOptions) {
	f.StringSliceVar(&o.Enable, "enable-admission-plugins", nil, "admission plugins to enable in addition to the default ones, by their names in Kubernetes")
	f.StringSliceVar(&o.Disable, "disable-admission-plugins", nil, "admission plugins to disable, of those that are enabled by default")
	f.StringVar(&o.ConfigFile, "admission-control-config-file", "", "file with an AdmissionConfiguration, for the plugins EventRateLimit, PodNodeSelector, PodSecurity, PodTolerationRestriction and ResourceQuota")
	o.NotReadySeconds, o.UnreachableSeconds = new(int64), new(int64)
	f.Int64Var(o.NotReadySeconds, "default-not-ready-toleration-seconds", 300, "seconds for which pods tolerate a node that is not ready, unless they have a toleration of their own")
	f.Int64Var(o.UnreachableSeconds, "default-unreachable-toleration-seconds", 300, "seconds for which pods tolerate an unreachable node, unless they have a toleration of their own")
}
