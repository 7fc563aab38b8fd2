package main

import (
	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// addAggregation adds the flags of kube-apiserver for extension servers (APIService) and for
// authenticating proxies.
func addAggregation(f *pflag.FlagSet, o *kapok.AggregationOptions) {
	f.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", "",
		"file with the client certificate that authenticates this server to extension servers (default: one signed by its own CA)")
	f.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", "", "file with the key of the client certificate for extension servers")
	h := &o.RequestHeader
	f.StringVar(&h.ClientCAFile, "requestheader-client-ca-file", "",
		"file with the CAs for client certificates of authenticating proxies, whose request headers name the user")
	f.StringSliceVar(&h.AllowedNames, "requestheader-allowed-names", nil, "allowed common names in certificates of authenticating proxies (default: any)")
	f.StringSliceVar(&h.UsernameHeaders, "requestheader-username-headers", nil, "headers with the user name; usually X-Remote-User")
	f.StringSliceVar(&h.UIDHeaders, "requestheader-uid-headers", nil, "headers with the user's UID; usually X-Remote-Uid")
	f.StringSliceVar(&h.GroupHeaders, "requestheader-group-headers", nil, "headers with the user's groups; usually X-Remote-Group")
	f.StringSliceVar(&h.ExtraHeadersPrefix, "requestheader-extra-headers-prefix", nil, "prefixes of headers with the user's extra attributes; usually X-Remote-Extra-")
}
