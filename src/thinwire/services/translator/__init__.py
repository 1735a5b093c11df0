"""The translator: reads topic logs and writes a channel for each demand class that the log does not satisfy.

TranslatorService       decides by leases which topics this instance translates
TopicTranslation        the tasks of one topic: read the log, write channels, open and close classes
resume                  restores the translation of a topic from the broker
ChannelDecider          decides which classes need a channel; ChannelPlan: which of them have one
ChannelLifecycle        opens and closes the channels, and writes the channel documents
Translation             all channels of a topic, without I/O: log messages in, channel messages out
PublisherInput          the channels of one publisher: when they begin, resume and are interrupted
ChannelRouter           passes each message to the channels, alone or through a ChannelGroup
WhereGroup, HoldGroup   the groups: channels with a predicate, and last-value channels
Channel                 the frames of one publisher for one class; ChannelEncoder: its stream encoder
ChannelWriter           stores the channel messages; CheckpointWriter: snapshots of decoders and encoders
"""
