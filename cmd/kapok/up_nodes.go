package main

import (
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// nodeFlags adds the flags of kube-apiserver for connections to kubelets.
func nodeFlags(f *pflag.FlagSet, o *kapok.NodeOptions) {
	f.StringVar(&o.ClientCertFile, "kubelet-client-certificate", "",
		"file with the client certificate that authenticates this server to kubelets (default: one signed by its own CA)")
	f.StringVar(&o.ClientKeyFile, "kubelet-client-key", "", "file with the key of the client certificate for kubelets")
	f.StringVar(&o.CAFile, "kubelet-certificate-authority", "", "file with the CAs of kubelets' serving certificates (default: these are not verified)")
	f.StringSliceVar(&o.AddressTypes, "kubelet-preferred-address-types", []string{"Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"},
		"types of node addresses to connect to kubelets with, the preferred one first")
	f.DurationVar(&o.Timeout, "kubelet-timeout", 5*time.Second, "time limit for establishing a connection to a kubelet")
}
