//! One module for each group of commands.

mod attributes;
mod cat;
mod ckpt;
mod completion;
mod concat;
mod create;
mod datanode;
mod datanodes;
mod doctor;
mod download;
mod fsck;
mod kadoop_log;
mod keys;
mod leftovers;
mod list;
mod locate;
mod logout;
mod malgen;
mod mode;
mod mount;
mod namenode;
mod nfs;
mod passwd;
mod pump;
mod remove;
mod rename;
mod run;
mod running;
mod serve;
mod served_stores;
mod stat;
mod stores;
mod targets;
mod up;
mod upload;
mod usage;

use crate::cli::{Cli, Command};
use crate::context::Context;
use crate::failure::Failure;

/// Runs a command to its end.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    let context = Context::new(cli.global);
    let result = match cli.command {
        Command::Up(up) => return up::up(up).await,
        Command::Serve(serve) => return serve::serve(&context, serve).await,
        Command::Namenode(namenode) => return namenode::namenode(namenode).await,
        Command::Datanode(datanode) => return datanode::datanode(datanode).await,
        Command::Nfs(flags) => nfs::nfs(&context, flags).await,
        Command::Ls(ls) => list::ls(&context, ls).await,
        Command::Stat(stat) => stat::stat(&context, stat).await,
        Command::Du(du) => usage::du(&context, du).await,
        Command::Cat(operands) => cat::cat(&context, operands).await,
        Command::Put(put) => upload::put(&context, put).await,
        Command::Get(get) => download::get(&context, get).await,
        Command::Rm(rm) => remove::rm(&context, rm).await,
        Command::Mv(mv) => rename::mv(&context, mv).await,
        Command::Concat(flags) => concat::concat(&context, flags).await,
        Command::Mkdir(mkdir) => create::mkdir(&context, mkdir).await,
        Command::Touch(touch) => create::touch(&context, touch).await,
        Command::Chmod(chmod) => attributes::chmod(&context, chmod).await,
        Command::Chown(chown) => attributes::chown(&context, chown).await,
        Command::Setrep(setrep) => attributes::setrep(&context, setrep).await,
        Command::Locate(operands) => locate::locate(&context, operands).await,
        Command::Checksum(operands) => locate::checksum(&context, operands).await,
        Command::Stores(stores) => stores::stores(&context, stores).await,
        Command::Doctor(doctor) => doctor::doctor(&context, doctor).await,
        Command::PluginHelper => return stores::plugin_helper(),
        Command::Df(df) => locate::df(&context, df).await,
        Command::Fsck(flags) => fsck::fsck(&context, flags).await,
        Command::Datanodes(of) => datanodes::datanodes(&context, of).await,
        Command::Admit(flags) => datanodes::admit(&context, flags).await,
        Command::Decommission(flags) => datanodes::decommission(&context, flags).await,
        Command::Rebalance(flags) => datanodes::rebalance(&context, flags).await,
        Command::KadoopLog(log) => kadoop_log::kadoop_log(&context, log),
        Command::Ckpt(ckpt) => ckpt::ckpt(&context, ckpt).await,
        Command::Mount(flags) => mount::mount(&context, flags).await,
        Command::Run(flags) => run::run(&context, flags).await,
        Command::RunHelper => run::helper(&context).await,
        Command::Logout(logout) => logout::logout(&context, logout),
        Command::Passwd(passwd) => passwd::passwd(passwd),
        Command::Malgen(malgen) => malgen::malgen(malgen),
        Command::Completion(flags) => completion::completion(&flags),
    };
    // After a signal the user shouldn't wait: the gateway ends idle sessions itself.
    if !matches!(result, Err(Failure::Ended(_))) {
        context.close().await;
    }
    result
}
