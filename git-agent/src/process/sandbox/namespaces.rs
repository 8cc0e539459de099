//! The namespaces of a room: everything but its own paths is read-only, sockets are out of reach, and no process outlives
//! the first one.
//!
//! Three processes: the one that the supervisor started waits outside; the first process of the new namespace collects
//! orphans; the third becomes the program. The program cannot be the first one itself, because the kernel ignores signals
//! to it that it does not handle.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind_recursive,
    mount_change, move_mount, open_tree,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getgid, getuid, set_parent_process_death_signal, wait,
    waitpid,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::error::{Context, Result};
use crate::process::sandbox::kernel::{self, Fork};
use crate::process::sandbox::{Room, is_within, real};

/// Signals that end a group of processes politely. The program decides what they mean; we end when it has ended.
const POLITE: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Files below `/run` that name servers need.
const KEPT_IN_RUN: [&str; 4] = [
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/nscd",
];

/// Enters new namespaces. Only the process that becomes the program returns; `between` runs in the others.
pub(super) fn enter(room: &Room, between: impl Fn()) -> Result<()> {
    let (uids, gids) = maps();
    let mut all =
        UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if room.offline {
        all |= UnshareFlags::NEWNET;
    }
    unshare(all).context(|| "cannot make namespaces".into())?;
    write_maps(&uids, &gids).context(|| "cannot map users into the namespace".into())?;
    if room.offline {
        kernel::raise_loopback().context(|| "cannot start a private loopback".into())?;
    }
    let here = std::env::current_dir().context(|| "cannot read the current directory".into())?;
    arrange(room)?;
    // The old one is below the new mounts.
    std::env::set_current_dir(&here).context(|| format!("cannot enter '{}'", here.display()))?;
    let (told, tell) = pipe_with(PipeFlags::CLOEXEC).context(|| "cannot create a pipe".into())?;
    for signal in POLITE {
        kernel::set_ignored(signal, true);
    }
    if let Fork::Parent(first) = kernel::fork()? {
        between();
        drop(tell);
        end_like(first, told);
    }
    drop(told);
    // If the one outside is killed, so is everything here.
    set_parent_process_death_signal(Some(Signal::KILL))
        .context(|| "cannot follow the supervisor".into())?;
    // Some containers hide parts of it, and then allow no other. The old one stays, and shows the same processes.
    let _ = mount(
        "proc",
        "/proc",
        "proc",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        None,
    );
    if let Fork::Parent(program) = kernel::fork()? {
        between();
        let code = outlast(program);
        let _ = fs::File::from(tell).write_all(&code.to_ne_bytes());
        std::process::exit(0);
    }
    drop(tell);
    for signal in POLITE {
        kernel::set_ignored(signal, false);
    }
    Ok(())
}

/// Asks for namespaces.
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    #[allow(unsafe_code)]
    // SAFETY: none of these flags separates what threads share (NEWUSER implies a file system root and directory of its
    // own), and the shim has only one thread.
    unsafe {
        unshare_unsafe(flags)
    }
}

/// Returns the ids that exist inside: all of root's, and for any other user only its own.
fn maps() -> (String, String) {
    let own = |file: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (inside, _, count) = (words.next()?, words.next()?, words.next()?);
            Some(format!("{inside} {inside} {count}\n"))
        });
        lines.collect::<String>()
    };
    if getuid().is_root() {
        (own("/proc/self/uid_map"), own("/proc/self/gid_map"))
    } else {
        let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
        (format!("{uid} {uid} 1\n"), format!("{gid} {gid} 1\n"))
    }
}

fn write_maps(uids: &str, gids: &str) -> std::io::Result<()> {
    if !getuid().is_root() || fs::write("/proc/self/uid_map", uids).is_err() {
        // Root maps all of its ids, which takes rights in the namespace outside: those are gone. One id needs none.
        let (uid, gid) = (first_word(uids), first_word(gids));
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
        return fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n"));
    }
    fs::write("/proc/self/gid_map", gids)
}

fn first_word(text: &str) -> &str {
    text.split_ascii_whitespace().next().unwrap_or("0")
}

/// Arranges the file system: private places for temporary files, no sockets, and read-only except for the room's own.
fn arrange(room: &Room) -> Result<()> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags).context(|| "cannot separate the mounts".into())?;
    let writable = real(&room.writable);
    let needed = real(&room.needed);
    let mut private = Vec::new();
    let (tmp, memory, run) = (Path::new("/tmp"), Path::new("/dev/shm"), Path::new("/run"));
    let is_needed_in = |place: &Path| needed.iter().any(|path| path.starts_with(place));
    if let Some(own) = room.temporary.as_ref().filter(|_| !is_needed_in(tmp)) {
        let mut keep = below(tmp, &writable, &room.sockets);
        // It stays reachable by the name that variables have.
        keep.extend(below(tmp, std::slice::from_ref(own), &[]));
        cover(tmp, Some(own), &keep).context(|| "cannot make a private /tmp".into())?;
        private.push(tmp);
    }
    let mut keep: Vec<PathBuf> = KEPT_IN_RUN.iter().map(PathBuf::from).collect();
    keep.extend(below(run, &writable, &room.sockets));
    keep.extend(below(run, &needed, &[]));
    cover(run, None, &keep).context(|| "cannot hide /run".into())?;
    private.push(run);
    let in_memory = room.temporary.iter().any(|path| path.starts_with(memory));
    if !is_needed_in(memory) && !in_memory {
        cover(memory, None, &[]).context(|| "cannot make a private /dev/shm".into())?;
        private.push(memory);
    }
    hide_sockets(&room.sockets, &writable);
    let own = writable.iter().chain(&room.temporary);
    for path in own.clone() {
        mount_bind_recursive(path, path).context(|| format!("cannot bind '{}'", path.display()))?;
    }
    for path in real(&room.fixed) {
        mount_bind_recursive(&path, &path)
            .context(|| format!("cannot bind '{}'", path.display()))?;
    }
    kernel::set_read_only(Path::new("/"), true, true)
        .context(|| "cannot make the file system read-only".into())?;
    for path in own.map(PathBuf::as_path).chain(private) {
        // A mount below it that was read-only before stays so.
        let _ = kernel::set_read_only(path, false, false);
    }
    Ok(())
}

fn below(directory: &Path, paths: &[PathBuf], more: &[PathBuf]) -> Vec<PathBuf> {
    let all = paths.iter().chain(more);
    all.filter(|path| path.starts_with(directory) && path.as_path() != directory)
        .cloned()
        .collect()
}

/// Covers a directory with a private one, or with an empty one in memory. The paths to keep show through.
fn cover(directory: &Path, private: Option<&Path>, keep: &[PathBuf]) -> std::io::Result<()> {
    let Ok(directory) = directory.canonicalize() else {
        return Ok(());
    };
    let clone = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let kept: Vec<_> = keep
        .iter()
        .filter_map(|path| Some((path, open_tree(CWD, path, clone).ok()?)))
        .collect();
    match private {
        Some(private) => mount_bind_recursive(private, &directory)?,
        None => mount(
            "tmpfs",
            &directory,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            c"mode=1777,size=50%",
        )?,
    }
    for (path, tree) in kept {
        let stat = rustix::fs::fstat(&tree)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        if stat.st_mode & libc::S_IFMT == libc::S_IFDIR {
            fs::create_dir_all(path)?
        } else {
            drop(fs::File::create(path)?)
        }
        move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    Ok(())
}

/// Puts something else in the place of each socket that listens now: of an ssh-agent, a terminal multiplexer, a desktop, a
/// container engine.
fn hide_sockets(spare: &[PathBuf], writable: &[PathBuf]) {
    let list = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    for path in list
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
    {
        let path = Path::new(path);
        let own = spare.iter().any(|spared| spared == path) || is_within(path, writable);
        let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| {
            use std::os::unix::fs::FileTypeExt;
            meta.file_type().is_socket()
        });
        if is_socket && !own {
            // One that cannot be hidden belongs to a place that this process may not enter.
            let _ = mount_bind_recursive("/dev/null", path);
        }
    }
}

/// Collects orphans until the program has ended. Returns its exit code, or the negative number of the signal that ended it.
fn outlast(program: Pid) -> i32 {
    let how = |status: WaitStatus| match status.terminating_signal() {
        Some(signal) => -signal,
        None => status.exit_status().unwrap_or(1),
    };
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => return how(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return 1,
        }
    }
}

/// Waits for the namespace to end, and ends as its program did.
fn end_like(first: Pid, told: std::os::fd::OwnedFd) -> ! {
    let mut bytes = [0u8; 4];
    let told = fs::File::from(told).read_exact(&mut bytes).is_ok();
    while waitpid(Some(first), WaitOptions::empty())
        .is_err_and(|error| error == rustix::io::Errno::INTR)
    {}
    if !told {
        // The first process was killed.
        end_by(Signal::KILL);
    }
    let how = i32::from_ne_bytes(bytes);
    if let Some(signal) = Signal::from_named_raw(-how) {
        kernel::set_ignored(signal.as_raw(), false);
        end_by(signal);
    }
    std::process::exit(how);
}

fn end_by(signal: Signal) -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    // Not reached by a signal that ends.
    std::process::exit(128 + signal.as_raw());
}

/// Tries to enter namespaces and to arrange the file system, for good: the caller ends afterwards.
pub(super) fn try_out() -> Result<()> {
    let (uids, gids) = maps();
    let all = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWPID;
    unshare(all).context(|| "user namespaces are not allowed".into())?;
    write_maps(&uids, &gids).context(|| "user namespaces cannot be given users".into())?;
    arrange(&Room::default()).context(|| "user namespaces cannot mount".into())
}
