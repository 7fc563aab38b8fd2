package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// serviceFlag is the flag for the cluster IPs of services, named as kube-apiserver's.
func serviceFlag(f *pflag.FlagSet, to *netip.Prefix, standard string) {
	*to = netip.MustParsePrefix(standard)
	f.Var((*prefix)(to), "service-cluster-ip-range", "CIDR of the cluster IPs of services; has an effect only when the store is created; with --node process, by default 127.96.0.0/12")
}

// nodePortFlags adds the flags for node ports of services, named as kube-apiserver's.
func nodePortFlags(f *pflag.FlagSet, o *kapok.Options) {
	o.NodePorts = utilnet.PortRange{Base: 30000, Size: 2768}
	f.Var((*portRange)(&o.NodePorts), "service-node-port-range", "first and last node port of services")
	f.IntVar(&o.KubernetesNodePort, "kubernetes-service-node-port", 0, "node port of the service kubernetes; 0: none")
}

// portRange is a flag for a range of ports, as FIRST-LAST.
type portRange utilnet.PortRange

func (p *portRange) Type() string   { return "portRange" }
func (p *portRange) String() string { return utilnet.PortRange(*p).String() }

func (p *portRange) Set(text string) error {
	parsed, err := utilnet.ParsePortRange(text)
	if err != nil || parsed.Base < 1 {
		return errors.New("want the first and the last port, like 30000-32767")
	}
	*p = portRange(*parsed)
	return nil
}

// prefix is a flag for a range of addresses.
type prefix netip.Prefix

func (p *prefix) Type() string   { return "CIDR" }
func (p *prefix) String() string { return netip.Prefix(*p).String() }

func (p *prefix) Set(text string) error {
	parsed, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("want a range of addresses, like 10.96.0.0/12, not %q", text)
	}
	*p = prefix(parsed.Masked())
	return nil
}
