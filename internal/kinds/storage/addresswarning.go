package storage

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// AddressWarnings returns warnings about an IP address in a deprecated form. Text that is not an
// address has no warnings: not every field with an address is validated as one, and the library
// logs such values.
func AddressWarnings(path *field.Path, value string) []string {
	if netutils.ParseIPSloppy(value) == nil {
		return nil
	}
	return validation.GetWarningsForIP(path, value)
}

// RangeWarnings is AddressWarnings for a range of addresses.
func RangeWarnings(path *field.Path, value string) []string {
	if _, _, err := netutils.ParseCIDRSloppy(value); err != nil {
		return nil
	}
	return validation.GetWarningsForCIDR(path, value)
}
