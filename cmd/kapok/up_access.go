package main

import (
	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// accessFlags adds the flags of kapok up for authorization, with kube-apiserver's names.
func accessFlags(f *pflag.FlagSet, o *kapok.AccessOptions) {
	f.StringSliceVar(&o.Modes, "authorization-mode", nil,
		"authorizers in the order in which they are called: Node, RBAC, Webhook or AlwaysAllow (default Node,RBAC)")
	f.StringVar(&o.ConfigFile, "authorization-config", "",
		"file with an AuthorizationConfiguration, instead of --authorization-mode; reloaded when it changes")
	f.StringVar(&o.WebhookConfigFile, "authorization-webhook-config-file", "",
		"kubeconfig with the address of the webhook for the mode Webhook")
	f.StringVar(&o.WebhookVersion, "authorization-webhook-version", "v1beta1",
		"version of the SubjectAccessReviews sent to the webhook: v1 or v1beta1")
	f.DurationVar(&o.WebhookAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", 0,
		"time for which allowed requests are cached (default 5m)")
	f.DurationVar(&o.WebhookUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", 0,
		"time for which denied requests are cached (default 30s)")
}
