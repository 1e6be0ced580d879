package devenv

import "syscall"

// DieWithParent makes the kernel send signal to the child when the thread that
// starts it dies. Start the child from a locked thread: any other may end before
// the process does. On systems other than Linux it does nothing.
func DieWithParent(child *syscall.SysProcAttr, signal syscall.Signal) {
	child.Pdeathsig = signal
}
