//go:build !linux

package devenv

import "syscall"

// DieWithParent does nothing: only Linux has parent-death signals.
func DieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
