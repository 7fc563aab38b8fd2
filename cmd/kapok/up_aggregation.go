package main

import (
	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// addAggregation adds the flags of kube-apiserver that say how the server works together with others behind it (APIService)
// and in front of it.
func addAggregation(f *pflag.FlagSet, o *kapok.AggregationOptions) {
	f.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", "",
		"file with the client certificate with which the server speaks for its users to the servers of APIServices (default: one of an authority of its own)")
	f.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", "", "file with the key of that certificate")
	h := &o.RequestHeader
	f.StringVar(&h.ClientCAFile, "requestheader-client-ca-file", "",
		"file with the authorities that sign client certificates of proxies in front of the server, which are believed who a user is")
	f.StringSliceVar(&h.AllowedNames, "requestheader-allowed-names", nil, "common names in certificates of such proxies (default: any)")
	f.StringSliceVar(&h.UsernameHeaders, "requestheader-username-headers", nil, "headers in which they name the user; X-Remote-User is common")
	f.StringSliceVar(&h.UIDHeaders, "requestheader-uid-headers", nil, "headers in which they give the user's UID; X-Remote-Uid is common")
	f.StringSliceVar(&h.GroupHeaders, "requestheader-group-headers", nil, "headers in which they name the user's groups; X-Remote-Group is common")
	f.StringSliceVar(&h.ExtraHeadersPrefix, "requestheader-extra-headers-prefix", nil, "what headers begin with that say more of the user; X-Remote-Extra- is common")
}
