//! The seccomp filter: system calls that Landlock does not see, refused with "operation not permitted".
//!
//! It is a list of prohibitions on purpose: a list of permissions breaks with each new program. A call with another
//! convention (32-bit programs) would pass by other numbers, so it ends the program.

use crate::error::Result;
use crate::process::sandbox::kernel::{self, Instruction};

/// The kernel's name of the convention for calls.
#[cfg(target_arch = "x86_64")]
const CONVENTION: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const CONVENTION: u32 = 0xC000_00B7;

/// Calls of the x32 convention have this bit.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Calls that reach beyond the room: the kernel's rings (which pass filters by), its keys, its clock and its modules,
/// files by handle, and other namespaces.
const REFUSED: [libc::c_long; 32] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_mount_setattr,
];

/// The request with which a process types into its terminal for the person who uses it.
const TIOCSTI: u32 = 0x5412;

/// Where the kernel puts the number, the convention and the lower halves of the arguments.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const SECOND_ARGUMENT: u32 = 24;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7FFF_0000;
const KILL: u32 = 0x8000_0000;
const REFUSE: u32 = 0x0005_0000 | libc::EPERM as u32;

fn load(offset: u32) -> Instruction {
    Instruction::new(LOAD, offset, (0, 0))
}

fn answer(value: u32) -> Instruction {
    Instruction::new(RETURN, value, (0, 0))
}

/// Goes on with the next instruction if the loaded value is this one, and skips it otherwise.
fn next_if(value: u32) -> Instruction {
    Instruction::new(JUMP_IF_EQUAL, value, (0, 1))
}

/// Refuses a call if an argument has a value. Leaves the number loaded.
fn refuse_with(call: libc::c_long, argument: u32, value: u32) -> [Instruction; 5] {
    [
        // Past the other four if it is another call.
        Instruction::new(JUMP_IF_EQUAL, call as u32, (0, 4)),
        load(argument),
        next_if(value),
        answer(REFUSE),
        load(NUMBER),
    ]
}

/// The sockets that may be made. The other layers decide about them on most kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sockets {
    /// Those of this machine, with a path or an abstract name.
    pub unix: bool,
    /// Those of networks.
    pub network: bool,
}

/// The families of network sockets.
const NETWORKS: [libc::c_int; 5] = [
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_VSOCK,
    libc::AF_PACKET,
    libc::AF_BLUETOOTH,
];

/// Returns the filter's program.
fn program(sockets: Sockets) -> Vec<Instruction> {
    let mut program = vec![
        load(ARCHITECTURE),
        Instruction::new(JUMP_IF_EQUAL, CONVENTION, (1, 0)),
        answer(KILL),
        load(NUMBER),
    ];
    #[cfg(target_arch = "x86_64")]
    program.extend([
        Instruction::new(JUMP_IF_AT_LEAST, X32, (0, 1)),
        answer(REFUSE),
    ]);
    for call in REFUSED {
        program.extend([next_if(call as u32), answer(REFUSE)]);
    }
    program.extend(refuse_with(libc::SYS_ioctl, SECOND_ARGUMENT, TIOCSTI));
    let unix = (!sockets.unix).then_some(libc::AF_UNIX);
    let networks = NETWORKS.into_iter().filter(|_| !sockets.network);
    for family in unix.into_iter().chain(networks) {
        program.extend(refuse_with(libc::SYS_socket, FIRST_ARGUMENT, family as u32));
    }
    program.push(answer(ALLOW));
    program
}

/// Puts this process, and all that it starts, under the filter.
pub(super) fn install(sockets: Sockets) -> Result<()> {
    kernel::install_filter(&program(sockets))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter on a call, as the kernel does.
    fn judge(program: &[Instruction], number: u32, arguments: [u32; 2]) -> u32 {
        let (mut at, mut value) = (0usize, 0u32);
        loop {
            let one = &program[at];
            at += 1;
            match one.code {
                LOAD => {
                    value = match one.value {
                        NUMBER => number,
                        ARCHITECTURE => CONVENTION,
                        FIRST_ARGUMENT => arguments[0],
                        _ => arguments[1],
                    }
                }
                JUMP_IF_EQUAL => {
                    at += usize::from(if value == one.value {
                        one.then
                    } else {
                        one.other
                    });
                }
                JUMP_IF_AT_LEAST => {
                    at += usize::from(if value >= one.value {
                        one.then
                    } else {
                        one.other
                    });
                }
                _ => return one.value,
            }
        }
    }

    #[test]
    fn only_listed_calls_are_refused() {
        for allowed in [false, true] {
            let program = program(Sockets {
                unix: allowed,
                network: allowed,
            });
            let judge = |call: libc::c_long, arguments| judge(&program, call as u32, arguments);
            for call in REFUSED {
                assert_eq!(judge(call, [0, 0]), REFUSE, "{call}");
            }
            for call in [libc::SYS_openat, libc::SYS_socketpair, libc::SYS_execve] {
                assert_eq!(judge(call, [1, 1]), ALLOW, "{call}");
            }
            assert_eq!(judge(libc::SYS_ioctl, [0, TIOCSTI]), REFUSE);
            assert_eq!(judge(libc::SYS_ioctl, [0, 1]), ALLOW);
            let unix = libc::AF_UNIX as u32;
            let wanted = if allowed { ALLOW } else { REFUSE };
            for family in NETWORKS
                .map(|family| family as u32)
                .into_iter()
                .chain([unix])
            {
                assert_eq!(judge(libc::SYS_socket, [family, 0]), wanted);
            }
            let netlink = libc::AF_NETLINK as u32;
            assert_eq!(judge(libc::SYS_socket, [netlink, 0]), ALLOW);
        }
    }
}
