package main

import (
	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// accessFlags are the flags of kapok up that say who decides what users may do, with kube-apiserver's names.
func accessFlags(f *pflag.FlagSet, o *kapok.AccessOptions) {
	f.StringSliceVar(&o.Modes, "authorization-mode", nil,
		"who is asked what users may do, in this order: RBAC, Webhook, AlwaysAllow (default RBAC)")
	f.StringVar(&o.ConfigFile, "authorization-config", "",
		"file with an AuthorizationConfiguration, instead of --authorization-mode; it is read again when it changes")
	f.StringVar(&o.WebhookConfigFile, "authorization-webhook-config-file", "",
		"kubeconfig file that says where the webhook of the mode Webhook is")
	f.StringVar(&o.WebhookVersion, "authorization-webhook-version", "v1beta1",
		"version of the SubjectAccessReviews that the webhook gets, v1 or v1beta1")
	f.DurationVar(&o.WebhookAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", 0,
		"how long the webhook's yes counts (default 5m)")
	f.DurationVar(&o.WebhookUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", 0,
		"how long the webhook's no counts (default 30s)")
}
